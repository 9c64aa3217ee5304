"""Weights of Llama and models like it: norms before attention and MLP, gated MLP, grouped heads, experts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from torchdeck.plan.hugging_face.config_keys import Values, decoder, flag, linear, norm, number
from torchdeck.plan.memory.model_shape import ModelShape, ModelWeights, Weight
from torchdeck.plan.memory.shape_derivation import UnknownModelError


@dataclass(frozen=True)
class Llama:
    """Differences of a family from Llama."""

    tied: bool = False
    kv_heads: int | None = None
    """Default of num_key_value_heads; None: as many as heads."""
    head_size: int | None = None
    """Default of head_dim; None: hidden_size ÷ heads."""
    qkv_bias: bool = False
    biases: str = ""
    """Key that gives all biases of attention and MLP."""
    bias_default: bool = False
    fused: bool = False
    """One matrix for queries, keys and values, and one for gate and up."""
    head_norms: str = ""
    """`head`: norms of each head's queries and keys; `whole`: of all heads together."""
    norms: tuple[str, ...] = ("attention_norm", "mlp_norm")
    layer_norm: bool = False
    norm_bias: bool = True
    """Whether a LayerNorm has a bias."""
    gated: bool = True


FOUR_NORMS = ("attention_norm", "attention_norm.after", "mlp_norm", "mlp_norm.after")


def llama(family: Llama) -> Callable[[Values], ModelWeights]:
    def weights(values: Values) -> ModelWeights:
        shape = llama_shape(values, family)
        blocks = [[*attention(shape, family), *_mlp(values, shape, layer)] for layer in range(shape.layers)]
        last = list(norm("norm", shape.width, shape.layer_norm and family.norm_bias))
        return decoder(
            shape,
            values,
            blocks,
            before=[("embedding.weight", (shape.vocabulary, shape.width))],
            after=last,
        )

    def _mlp(values: Values, shape: ModelShape, layer: int) -> list[Weight]:
        experts = _experts(values, shape, layer)
        return experts if experts is not None else dense_mlp(shape, family)

    return weights


def llama_shape(values: Values, family: Llama) -> ModelShape:
    width, heads = number(values, "hidden_size"), number(values, "num_attention_heads")
    if family.head_size is None and values.get("head_dim") is None and width % heads:
        raise UnknownModelError(f"{heads} heads do not divide a hidden size of {width} evenly")
    bias = flag(values, family.biases or "attention_bias", default=family.bias_default)
    context = number(values, "max_position_embeddings", default=4096)
    return ModelShape(
        layers=number(values, "num_hidden_layers"),
        width=width,
        heads=heads,
        kv_heads=number(values, "num_key_value_heads", default=family.kv_heads or heads),
        head_size=number(values, "head_dim", default=family.head_size or width // heads),
        mlp_width=_mlp_width(values),
        vocabulary=number(values, "vocab_size"),
        context=context,
        gated=family.gated,
        layer_norm=family.layer_norm,
        positions=False,
        tied=flag(values, "tie_word_embeddings", default=family.tied),
        qkv_bias=bias or family.qkv_bias or flag(values, "use_qkv_bias", default=False),
        out_bias=bias,
        mlp_bias=bias if family.biases else flag(values, "mlp_bias", default=False),
        head_norms=bool(family.head_norms),
        max_positions=context,
    )


def _mlp_width(values: Values) -> int:
    """Return the inner width that a token passes: of all experts chosen for it, and the shared one."""
    if not _expert_count(values):
        return number(values, "intermediate_size")
    width = number(values, "moe_intermediate_size", "intermediate_size")
    return width * number(values, "num_experts_per_tok", default=2) + _shared_width(values)


def _shared_width(values: Values) -> int:
    """Return the inner width of the expert that all tokens pass; 0 if there is none."""
    given = values.get("shared_expert_intermediate_size")
    return number(values, "shared_expert_intermediate_size") if given else 0


def attention(shape: ModelShape, family: Llama) -> list[Weight]:
    width, bias = shape.width, shape.layer_norm and family.norm_bias
    parts = [weight for name in family.norms for weight in norm(name, width, bias)]
    if family.fused:
        rows = shape.query_width + 2 * shape.kv_width
        parts += linear("attention.query_key_value", rows, width, shape.qkv_bias)
    else:
        parts += linear("attention.query", shape.query_width, width, shape.qkv_bias)
        parts += linear("attention.key", shape.kv_width, width, shape.qkv_bias)
        parts += linear("attention.value", shape.kv_width, width, shape.qkv_bias)
    parts += linear("attention.out", width, shape.query_width, shape.out_bias)
    if family.head_norms:
        whole = family.head_norms == "whole"
        sizes = (shape.query_width, shape.kv_width) if whole else (shape.head_size, shape.head_size)
        parts += [
            (f"attention.{name}_norm.weight", (size,))
            for name, size in zip(("query", "key"), sizes, strict=True)
        ]
    return parts


def dense_mlp(shape: ModelShape, family: Llama) -> list[Weight]:
    width, inner, bias = shape.width, shape.mlp_width, shape.mlp_bias
    if family.fused:
        first = list(linear("mlp.gate_up", 2 * inner, width, bias))
    else:
        gate = list(linear("mlp.gate", inner, width, bias)) if shape.gated else []
        first = [*gate, *linear("mlp.up", inner, width, bias)]
    return [*first, *linear("mlp.down", width, inner, bias)]


def _expert_count(values: Values) -> int:
    names = ("num_local_experts", "num_experts")
    found = next((values[name] for name in names if isinstance(values.get(name), int)), 0)
    return int(found) if found > 1 else 0


def _experts(values: Values, shape: ModelShape, layer: int) -> list[Weight] | None:
    """Return the MLP of a layer with experts; None if this layer has none."""
    count = _expert_count(values)
    only = values.get("mlp_only_layers")
    step = number(values, "decoder_sparse_step", default=1)
    if not count or (isinstance(only, list) and layer in only) or (layer + 1) % step:
        return None if not count else _plain_layer(values, shape)
    inner = number(values, "moe_intermediate_size", "intermediate_size")
    shared = _shared_width(values)
    parts: list[Weight] = [
        ("mlp.gate_up.experts", (count, 2 * inner, shape.width)),
        ("mlp.down.experts", (count, shape.width, inner)),
        ("mlp.gate_router.weight", (count, shape.width)),
    ]
    if shared:
        parts += [
            ("mlp.gate_shared.weight", (shared, shape.width)),
            ("mlp.up_shared.weight", (shared, shape.width)),
            ("mlp.down_shared.weight", (shape.width, shared)),
            ("mlp.gate_of_shared.weight", (1, shape.width)),
        ]
    return parts


def _plain_layer(values: Values, shape: ModelShape) -> list[Weight]:
    """Return the MLP of a layer without experts in a model that has them elsewhere."""
    return dense_mlp(replace(shape, mlp_width=number(values, "intermediate_size")), Llama())
