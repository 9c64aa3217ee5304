"""Shape of a model from its Hugging Face config.json: llama, mistral, qwen2, qwen3 and gpt2.

Keys and their defaults are those of transformers' `LlamaConfig`, `MistralConfig`, `Qwen2Config`,
`Qwen3Config` and `GPT2Config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torchdeck.plan.memory.closed_form.model_shape import ModelShape

_LLAMA_LIKE = ("llama", "mistral", "qwen2", "qwen3")
KNOWN = (*_LLAMA_LIKE, "gpt2")
"""Supported values of `model_type`."""


class UnknownModelError(ValueError):
    """The file does not describe a model that can be estimated; the message says what is missing."""


def shape_from_config(values: Mapping[str, Any]) -> ModelShape:
    """Return the shape that a parsed config.json describes; `context` is the longest that the model takes.

    Raises:
        UnknownModelError: another architecture, or a number is missing or invalid.
    """
    kind = values.get("model_type")
    if kind not in KNOWN:
        raise UnknownModelError(
            f"model_type {kind!r} is not known here; right is one of {', '.join(KNOWN)}, or the numbers "
            "themselves in [estimate]"
        )
    if _any_experts(values):
        raise UnknownModelError(
            "a model with experts is not estimated: its ranks do not all compute the same"
        )
    return _gpt2(values) if kind == "gpt2" else _llama_like(values, kind)


def _llama_like(values: Mapping[str, Any], kind: str) -> ModelShape:
    width, heads = _number(values, "hidden_size"), _number(values, "num_attention_heads")
    attention_bias = _flag(values, "attention_bias", default=False)
    context = _number(values, "max_position_embeddings")
    return _checked(
        layers=_number(values, "num_hidden_layers"),
        width=width,
        heads=heads,
        kv_heads=_number(values, "num_key_value_heads", heads if kind == "llama" else None),
        head_size=_number(values, "head_dim", _head_size(width, heads)),
        mlp_width=_number(values, "intermediate_size"),
        vocabulary=_number(values, "vocab_size"),
        context=context,
        gated=True,
        layer_norm=False,
        positions=False,
        tied=_flag(values, "tie_word_embeddings", default=False),
        qkv_bias=attention_bias or kind == "qwen2",
        out_bias=attention_bias,
        mlp_bias=_flag(values, "mlp_bias", default=False),
        head_norms=kind == "qwen3",
        max_positions=context,
    )


def _gpt2(values: Mapping[str, Any]) -> ModelShape:
    width, heads, context = (_number(values, name) for name in ("n_embd", "n_head", "n_positions"))
    return _checked(
        layers=_number(values, "n_layer"),
        width=width,
        heads=heads,
        kv_heads=heads,
        head_size=_head_size(width, heads),
        mlp_width=_number(values, "n_inner", 4 * width),
        vocabulary=_number(values, "vocab_size"),
        context=context,
        gated=False,
        layer_norm=True,
        positions=True,
        tied=_flag(values, "tie_word_embeddings", default=True),
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        max_positions=context,
    )


def _checked(**numbers: Any) -> ModelShape:
    try:
        return ModelShape(**numbers)
    except ValueError as error:
        raise UnknownModelError(str(error)) from error


def _any_experts(values: Mapping[str, Any]) -> bool:
    names = ("num_experts", "num_local_experts", "n_routed_experts")
    return any(isinstance(values.get(name), int) and values[name] > 1 for name in names)


def _head_size(width: int, heads: int) -> int:
    if width % heads:
        raise UnknownModelError(f"{heads} heads do not divide a hidden size of {width} evenly")
    return width // heads


def _number(values: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = values.get(name)
    if value is None:
        value = default
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 2**31:
        wrong = f"{name} is {value!r}" if value is not None else f"it has no {name}"
        raise UnknownModelError(f"{wrong}; right is a whole number of 1 or more")
    return value


def _flag(values: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = values.get(name, default)
    if not isinstance(value, bool):
        raise UnknownModelError(f"{name} is {value!r}; right is true or false")
    return value
