"""Recipe byte-gpt: a small GPT over bytes, pre-norm, with learned positions (Radford et al., 2019).

Tokens of another vocabulary may be used instead of bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.recipes.generation.sampling import GeneratingModel
from torchdeck.recipes.next_token import CONTEXT, build_data, data_options, loss
from torchdeck.recipes.text_bytes import BYTES

__all__ = ["ByteGpt", "blocks", "build_data", "build_model", "data_options", "loss"]

_INITIAL_STD = 0.02


class Attention(nn.Module):
    """Causal self-attention over (batch, time, width), or as allowed by a mask (batch, 1, time, time)."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        batch, time, width = x.shape
        qkv = self.qkv(x).view(batch, time, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=mask is None
        )
        return self.out(mixed.transpose(1, 2).reshape(batch, time, width))  # type: ignore[no-any-return]


class Block(nn.Module):
    """Attention and a GELU layer of four times the width, each on normalised input with a residual
    connection.
    """

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = x + self.attention(self.attention_norm(x), mask)
        return x + self.mlp(self.mlp_norm(x))  # type: ignore[no-any-return]


class ByteGpt(GeneratingModel):
    """Tokens (batch, time) int64 → logits (batch, time, vocabulary).

    Args:
        layers: number of transformer blocks.
        heads: attention heads; they divide `width`.
        width: size of the hidden state.
        context: largest time.
        dropout: fraction of activations dropped in training.
        vocabulary: number of tokens; 256 for bytes.
        tie_weights: the output layer is the embedding's transpose (Press & Wolf, 2017).
    """

    def __init__(
        self,
        *,
        layers: int,
        heads: int,
        width: int,
        context: int,
        dropout: float,
        vocabulary: int = BYTES,
        tie_weights: bool = False,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self._initialise(layers)
        if tie_weights:
            self.head.weight = self.embedding.weight

    def _initialise(self, layers: int) -> None:
        """Initialise weights from a normal distribution; those that add to the residual stream are divided by
        √(2·layers), as in GPT-2.
        """
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                continue
            into_residual = name.endswith(("attention.out.weight", "mlp.2.weight"))
            nn.init.normal_(
                parameter, std=_INITIAL_STD / (2 * layers) ** 0.5 if into_residual else _INITIAL_STD
            )
        for module in self.modules():
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    @property
    def longest_context(self) -> int:
        """Return the number of learned positions."""
        return self.positions.num_embeddings

    def forward(self, tokens: Tensor, positions: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Return the logits of the token after each position.

        Args:
            tokens: int64, shape (batch, time).
            positions: int64, shape (batch, time), of the tokens in their samples; None: 0, 1, 2, ….
            mask: bool, shape (batch, 1, time, time), whether a query may attend to a key; None: to earlier
                keys and to itself.
        """
        if positions is None:
            positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.embedding(tokens) + self.positions(positions))
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))  # type: ignore[no-any-return]


def build_model(options: dict[str, Any]) -> ByteGpt:
    """Build the model of a [model] table: layers, heads, width, context, dropout, vocabulary, tie_weights.

    Raises:
        RecipeError: the heads do not divide the width.
    """
    sizes = {"layers": 4, "heads": 4, "width": 128, "context": CONTEXT, "dropout": 0.0} | options
    if sizes["width"] % sizes["heads"]:
        raise RecipeError(
            f"model.width {sizes['width']} cannot be divided among {sizes['heads']} heads: "
            f"make it a multiple of model.heads"
        )
    return ByteGpt(**sizes)


def blocks(model: nn.Module) -> Iterable[nn.Module]:
    """Return the transformer blocks, each of which FSDP gathers as one unit."""
    assert isinstance(model, ByteGpt)  # noqa: S101 - the recipe's own model; narrows the type
    return model.blocks
