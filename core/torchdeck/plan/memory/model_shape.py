"""A decoder-only transformer in a few numbers, and the weights that follow from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

Weight = tuple[str, tuple[int, ...]]
"""Name and shape."""
MOST_LAYERS = 10_000


@dataclass(frozen=True)
class ModelShape:
    """Numbers that determine the weights of one architecture family: GPT-2, or Llama and similar models.

    Raises:
        ValueError: keys and values cannot be divided evenly among the heads, or there are too many layers.
    """

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_size: int
    mlp_width: int
    vocabulary: int
    context: int
    gated: bool
    """Three matrices in an MLP (SwiGLU: gate, up, down); else two."""
    layer_norm: bool
    """LayerNorm, with a bias; else RMSNorm."""
    positions: bool
    """Learned positions, one row for each of `max_positions`."""
    tied: bool
    """Whether the output layer is the embedding."""
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    head_norms: bool = False
    """RMSNorm of each head's queries and keys (Qwen3)."""
    max_positions: int = 0
    """Rows of the position embedding; a sample may be shorter."""

    def __post_init__(self) -> None:
        if self.layers > MOST_LAYERS:
            raise ValueError(f"{self.layers} layers are above the limit of {MOST_LAYERS}")
        if self.heads % self.kv_heads:
            raise ValueError(
                f"{self.heads} heads cannot share {self.kv_heads} heads of keys and values evenly: "
                "kv_heads must divide heads"
            )

    @property
    def kv_width(self) -> int:
        """Size of keys, and of values."""
        return self.kv_heads * self.head_size

    @property
    def query_width(self) -> int:
        """Size of queries, and of attention's output."""
        return self.heads * self.head_size

    def before_blocks(self) -> list[Weight]:
        """Return the embeddings."""
        weights: list[Weight] = [("embedding.weight", (self.vocabulary, self.width))]
        if self.positions:
            weights.append(("positions.weight", (self.max_positions or self.context, self.width)))
        return weights

    def block(self) -> list[Weight]:
        """Return one block's weights; matrices as stored by torch, output features first."""
        projections = [
            ("attention.query", self.query_width, self.width, self.qkv_bias),
            ("attention.key", self.kv_width, self.width, self.qkv_bias),
            ("attention.value", self.kv_width, self.width, self.qkv_bias),
            ("attention.out", self.width, self.query_width, self.out_bias),
            *([("mlp.gate", self.mlp_width, self.width, self.mlp_bias)] if self.gated else []),
            ("mlp.up", self.mlp_width, self.width, self.mlp_bias),
            ("mlp.down", self.width, self.mlp_width, self.mlp_bias),
        ]
        weights = self._norm("attention_norm") + self._norm("mlp_norm")
        for name, rows, columns, bias in projections:
            weights.append((f"{name}.weight", (rows, columns)))
            if bias:
                weights.append((f"{name}.bias", (rows,)))
        if self.head_norms:
            weights += [(f"attention.{name}_norm.weight", (self.head_size,)) for name in ("query", "key")]
        return weights

    def after_blocks(self) -> list[Weight]:
        """Return the last norm, and the output layer if it has weights of its own."""
        head: list[Weight] = [] if self.tied else [("head.weight", (self.vocabulary, self.width))]
        return self._norm("norm") + head

    @property
    def outside_blocks(self) -> int:
        """Number of parameters outside the blocks."""
        return _count(self.before_blocks()) + _count(self.after_blocks())

    @property
    def parameters(self) -> int:
        """Number of all parameters; shared ones counted once."""
        return self.outside_blocks + self.layers * _count(self.block())

    def _norm(self, name: str) -> list[Weight]:
        weights: list[Weight] = [(f"{name}.weight", (self.width,))]
        return [*weights, (f"{name}.bias", (self.width,))] if self.layer_norm else weights


@dataclass(frozen=True)
class ModelWeights:
    """A model's weights, in the order of its forward; those of a tied output layer only once.

    Weights of a block have the names of `ModelShape.block`, or begin with them: the backward follows these.
    """

    shape: ModelShape
    """Shape by which activations are counted."""
    before: list[Weight]
    blocks: list[list[Weight]]
    after: list[Weight]

    @property
    def parameters(self) -> int:
        """Number of all parameters."""
        return _count(self.before) + sum(map(_count, self.blocks)) + _count(self.after)

    def named(self) -> Iterator[tuple[str, tuple[int, ...], int]]:
        """Yield name, shape and unit of each: 0 for the root, then the blocks."""
        yield from ((name, size, 0) for name, size in self.before)
        for index, block in enumerate(self.blocks):
            yield from ((f"blocks.{index}.{name}", size, index + 1) for name, size in block)
        yield from ((name, size, 0) for name, size in self.after)


def _count(weights: list[Weight]) -> int:
    return sum(prod(shape) for _, shape in weights)
