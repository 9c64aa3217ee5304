"""Weights of a model by its Hugging Face config.json: every tensor's shape, without the model.

Keys and their defaults are those of transformers' config classes; shapes are those of its model classes,
which tests compare for each family. Experts are stored as transformers 5 stores them: one tensor for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from torchdeck.plan.hugging_face.config_keys import Head, Values, decoder, flag, head_of, linear, norm, number
from torchdeck.plan.hugging_face.llama_weights import (
    FOUR_NORMS,
    Llama,
    attention,
    dense_mlp,
    llama,
    llama_shape,
)
from torchdeck.plan.memory.model_shape import ModelShape, ModelWeights, Weight
from torchdeck.plan.memory.shape_derivation import UnknownModelError


def _plain_shape(values: Values, width: int, heads: int, context: int, **more: Any) -> ModelShape:
    if width % heads:
        raise UnknownModelError(f"{heads} heads do not divide a hidden size of {width} evenly")
    return ModelShape(
        width=width, heads=heads, kv_heads=heads, head_size=width // heads, context=context,
        vocabulary=number(values, "vocab_size"), gated=False, layer_norm=True,
        max_positions=context, **more,
    )  # fmt: skip


def _plain_block(
    shape: ModelShape, *, fused: bool = False, transposed: bool = False, norms: int = 2
) -> list[Weight]:
    """Return a block of LayerNorms, attention and MLP; `transposed`: matrices of GPT-2's Conv1D."""
    width, inner = shape.width, shape.mlp_width
    parts = list(norm("attention_norm", width, True)) if norms else []  # noqa: FBT003 - with a bias
    parts += norm("mlp_norm", width, True) if norms > 1 else []  # noqa: FBT003 - with a bias
    if fused:
        parts += linear("attention.query_key_value", 3 * width, width, shape.qkv_bias)
    else:
        for name in ("query", "key", "value"):
            parts += linear(f"attention.{name}", width, width, shape.qkv_bias)
    parts += linear("attention.out", width, width, shape.out_bias)
    parts += linear("mlp.up", inner, width, shape.mlp_bias)
    parts += linear("mlp.down", width, inner, shape.mlp_bias)
    if transposed:
        return [(name, size[::-1]) for name, size in parts]
    return parts


def gpt2(values: Values) -> ModelWeights:
    width = number(values, "n_embd")
    shape = _plain_shape(
        values, width, number(values, "n_head"), number(values, "n_positions"), positions=True,
        layers=number(values, "n_layer"), mlp_width=number(values, "n_inner", default=4 * width),
        tied=flag(values, "tie_word_embeddings", default=True), qkv_bias=True, out_bias=True, mlp_bias=True,
    )  # fmt: skip
    blocks = [_plain_block(shape, fused=True, transposed=True) for _ in range(shape.layers)]
    return decoder(shape, values, blocks, before=shape.before_blocks(), after=_last_norm(shape))


def _last_norm(shape: ModelShape) -> list[Weight]:
    return list(norm("norm", shape.width, True))  # noqa: FBT003 - with a bias


def gpt_neox(values: Values) -> ModelWeights:
    bias = flag(values, "attention_bias", default=True)
    shape = _plain_shape(
        values, number(values, "hidden_size"), number(values, "num_attention_heads"),
        number(values, "max_position_embeddings", default=2048), positions=False,
        layers=number(values, "num_hidden_layers"), mlp_width=number(values, "intermediate_size"),
        tied=flag(values, "tie_word_embeddings", default=False), qkv_bias=bias, out_bias=bias, mlp_bias=True,
    )  # fmt: skip
    blocks = [_plain_block(shape, fused=True) for _ in range(shape.layers)]
    return decoder(shape, values, blocks, before=shape.before_blocks(), after=_last_norm(shape))


def opt(values: Values) -> ModelWeights:
    bias = flag(values, "enable_bias", default=True)
    context = number(values, "max_position_embeddings", default=2048)
    shape = _plain_shape(
        values, number(values, "hidden_size"), number(values, "num_attention_heads"), context, positions=True,
        layers=number(values, "num_hidden_layers"), mlp_width=number(values, "ffn_dim"),
        tied=flag(values, "tie_word_embeddings", default=True), qkv_bias=bias, out_bias=bias, mlp_bias=bias,
    )  # fmt: skip
    blocks = [_plain_block(shape) for _ in range(shape.layers)]
    inner = number(values, "word_embed_proj_dim", default=shape.width)
    before: list[Weight] = [
        ("embedding.weight", (shape.vocabulary, inner)),
        ("positions.weight", (context + 2, shape.width)),
    ]
    normed = flag(values, "do_layer_norm_before", default=True) and not flag(
        values, "_remove_final_layer_norm", default=False
    )
    after = _last_norm(shape) if normed else []
    if inner != shape.width:
        before.append(("project_in.weight", (shape.width, inner)))
        after.append(("project_out.weight", (inner, shape.width)))
    return decoder(shape, values, blocks, before=before, after=after)


def phi(values: Values) -> ModelWeights:
    if flag(values, "qk_layernorm", default=False):
        raise UnknownModelError("phi with qk_layernorm is not known")
    shape = replace(llama_shape(values, Llama()), gated=False, layer_norm=True)
    shape = replace(shape, qkv_bias=True, out_bias=True, mlp_bias=True)
    family = Llama(norms=("attention_norm",))
    blocks = [[*attention(shape, family), *dense_mlp(shape, family)] for _ in range(shape.layers)]
    before: list[Weight] = [("embedding.weight", (shape.vocabulary, shape.width))]
    return decoder(shape, values, blocks, before=before, after=_last_norm(shape), head_bias=True)


def encoder(values: Values) -> ModelWeights:
    """Return a BERT or RoBERTa, with the head that config.json names."""
    width = number(values, "hidden_size")
    context = number(values, "max_position_embeddings", default=512)
    head = head_of(values, "ForMaskedLM")
    shape = _plain_shape(
        values, width, number(values, "num_attention_heads"), context, positions=True,
        layers=number(values, "num_hidden_layers"), mlp_width=number(values, "intermediate_size"),
        tied=head.words and flag(values, "tie_word_embeddings", default=True),
        qkv_bias=True, out_bias=True, mlp_bias=True,
    )  # fmt: skip
    before = [
        *shape.before_blocks(),
        ("token_types.weight", (number(values, "type_vocab_size", default=2), width)),
        *norm("norm_of_embeddings", width, True),  # noqa: FBT003 - with a bias
    ]
    after = _encoder_head(values, head, shape)
    if not head.words:
        shape = replace(shape, vocabulary=head.labels or 1)
    return ModelWeights(shape, before, [_plain_block(shape) for _ in range(shape.layers)], after)


def _encoder_head(values: Values, head: Head, shape: ModelShape) -> list[Weight]:
    width = shape.width
    dense = list(linear("head_dense", width, width, True))  # noqa: FBT003 - with a bias
    if head.words:
        words = shape.vocabulary
        tied: list[Weight] = [] if shape.tied else [("head.weight", (words, width))]
        return [*dense, *_last_norm(shape), *tied, ("head.bias", (words,))]
    if head.labels is None:
        return dense  # the pooler
    first = [] if "Token" in str(values.get("architectures")) else dense
    return [*first, *linear("head", head.labels, width, True)]  # noqa: FBT003 - with a bias


MOST_LAYERS = 1000
"""More would take seconds, for each edit of a run file."""
MOST_PARAMETERS = 10**14
_LAYERS = ("num_hidden_layers", "n_layer")


def model_weights(values: Values) -> ModelWeights:
    """Return the weights of the model that a parsed config.json describes.

    Raises:
        UnknownModelError: another architecture, or a number is missing or invalid.
    """
    kind = values.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise UnknownModelError(f"model_type {kind!r} is unknown; known: {', '.join(sorted(FAMILIES))}")
    layers = max((value for name in _LAYERS if isinstance(value := values.get(name), int)), default=0)
    if layers > MOST_LAYERS:
        raise UnknownModelError(f"{layers} layers are above the limit of {MOST_LAYERS}")
    try:
        found = FAMILIES[kind](values)
    except ValueError as error:
        raise UnknownModelError(str(error)) from error
    if found.parameters > MOST_PARAMETERS:
        raise UnknownModelError(f"{found.parameters:,} parameters are above the limit")
    return found


_GEMMA = Llama(tied=True, head_size=256)
FAMILIES: Mapping[str, Callable[[Values], ModelWeights]] = {
    "llama": llama(Llama()),
    "mistral": llama(Llama(kv_heads=8)),
    "qwen2": llama(Llama(qkv_bias=True)),
    "qwen3": llama(Llama(head_size=128, head_norms="head")),
    "smollm3": llama(Llama(tied=True, kv_heads=4)),
    "granite": llama(Llama()),
    "olmo2": llama(Llama(head_norms="whole")),
    "gemma": llama(_GEMMA),
    "gemma2": llama(replace(_GEMMA, norms=FOUR_NORMS)),
    "gemma3_text": llama(replace(_GEMMA, norms=FOUR_NORMS, head_norms="head")),
    "phi3": llama(Llama(fused=True)),
    "starcoder2": llama(
        Llama(tied=True, kv_heads=2, biases="use_bias", bias_default=True, layer_norm=True, gated=False)
    ),
    "stablelm": llama(Llama(layer_norm=True)),
    "cohere": llama(Llama(tied=True, layer_norm=True, norm_bias=False, norms=("attention_norm",))),
    "mixtral": llama(Llama(kv_heads=8)),
    "qwen2_moe": llama(Llama(qkv_bias=True)),
    "qwen3_moe": llama(Llama(head_norms="head")),
    "phi": phi,
    "gpt2": gpt2,
    "gpt_neox": gpt_neox,
    "opt": opt,
    "bert": encoder,
    "roberta": encoder,
}
"""Known values of `model_type`."""
