"""Shape of a model from [estimate]; missing values are derived, and each derivation is reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from torchdeck.config.estimate import Estimate
from torchdeck.plan.memory.model_shape import ModelShape

_HEAD_SIZE = 128
"""Head size of Llama (Touvron et al., 2023) and most models of 1 to 100 billion parameters since."""
_WIDTH_PER_LAYER = 128
"""Llama-2-7B: 4096 / 32; GPT-3 175B: 12288 / 96 (Brown et al., 2020, table 2.1)."""
_VOCABULARY = {"llama": 32_000, "gpt2": 50_257}
_CONTEXT = {"llama": 4096, "gpt2": 1024}


class EstimateError(ValueError):
    """[estimate] does not describe a model; the message says how to fix it."""


@dataclass(frozen=True)
class DerivedShape:
    """Shape, and notes on derived values."""

    shape: ModelShape
    notes: tuple[str, ...]
    """One sentence for all derived values; none if everything was given."""


def derive_shape(estimate: Estimate, file: Mapping[str, Any] | None = None) -> DerivedShape:
    """Return the shape that `estimate` describes.

    Args:
        estimate: the table.
        file: the parsed config.json that `estimate.config` names.

    Raises:
        EstimateError: it does not describe a model.
    """
    try:
        return _from_numbers(estimate) if file is None else _from_file(estimate, file)
    except UnknownModelError as error:
        raise EstimateError(f"estimate.config cannot be used: {error}") from error
    except ValueError as error:
        raise EstimateError(f"[estimate] describes no model: {error}") from error


def _from_file(estimate: Estimate, file: Mapping[str, Any]) -> DerivedShape:
    shape = shape_from_config(file)
    names = ("layers", "width", "heads", "kv_heads", "mlp_width", "vocabulary", "context")
    written = {name: getattr(estimate, name) for name in names if getattr(estimate, name) is not None}
    if estimate.tie_weights is not None:
        written["tied"] = estimate.tie_weights
    if {"width", "heads"} & written.keys():
        width, heads = written.get("width", shape.width), written.get("heads", shape.heads)
        written["head_size"] = _head_size(width, heads)
    if "context" not in written:
        note = f"derived: context = {shape.context}, the longest that the model takes"
        return DerivedShape(replace(shape, **written), (note,))
    # a context longer than the learned positions cannot be run, so they grow with it
    rows = max(shape.max_positions, written["context"])
    return DerivedShape(replace(shape, **written, max_positions=rows), ())


def _from_numbers(estimate: Estimate) -> DerivedShape:
    kind, derived = estimate.architecture, dict[str, str]()

    def value(name: str, number: int, why: str) -> int:
        given: int | None = getattr(estimate, name)
        if given is None:
            derived[name] = f"{name} = {number} ({why})"
        return number if given is None else given

    vocabulary = value("vocabulary", _VOCABULARY[kind], f"{kind}'s")
    context = value("context", _CONTEXT[kind], f"{kind}'s")
    tied = kind == "gpt2" if estimate.tie_weights is None else estimate.tie_weights
    layers, width = _layers_and_width(estimate, vocabulary, tied=tied)
    if estimate.width is None:
        derived["width"] = f"width = {width} (from the parameters)"
    if estimate.layers is None:
        derived["layers"] = f"layers = {layers} (from the parameters)"
    heads = value("heads", _heads(width), "about one for each 128 of width")
    kv_heads = value("kv_heads", heads, "as many as heads")
    mlp_width = value("mlp_width", _mlp_width(kind, width), "8/3 × width" if kind == "llama" else "4 × width")
    gpt2 = kind == "gpt2"
    shape = ModelShape(
        layers, width, heads, kv_heads, _head_size(width, heads), mlp_width, vocabulary, context,
        gated=not gpt2, layer_norm=gpt2, positions=gpt2, tied=tied,
        qkv_bias=gpt2, out_bias=gpt2, mlp_bias=gpt2, max_positions=context,
    )  # fmt: skip
    notes = ("derived: " + ", ".join(derived.values()),) if derived else ()
    return DerivedShape(shape, notes)


def _layers_and_width(estimate: Estimate, vocabulary: int, *, tied: bool) -> tuple[int, int]:
    """Return both as given; else from 12 · layers · width² parameters in the blocks (Kaplan et al., 2020,
    2.1).
    """
    layers, width = estimate.layers, estimate.width
    if layers is not None and width is not None:
        return layers, width
    parameters = estimate.parameters
    if parameters is None:
        raise ValueError("layers and width follow from parameters, and there is none")
    embeddings = vocabulary * (1 if tied else 2)
    if width is not None:
        return max(1, round((parameters - embeddings * width) / (12 * width**2))), width
    if layers is not None:
        # 12 · layers · w² + embeddings · w = parameters
        root = (embeddings**2 + 48 * layers * parameters) ** 0.5
        return layers, _multiple((root - embeddings) / (24 * layers))
    best = min(
        (_WIDTH_PER_LAYER * layers for layers in range(1, 1000)),
        key=lambda w: abs(12 * w**3 / _WIDTH_PER_LAYER + embeddings * w - parameters),
    )
    return best // _WIDTH_PER_LAYER, best


def _multiple(width: float) -> int:
    """Return the nearest width that heads divide: a multiple of 128, of 8 for small models."""
    unit = _HEAD_SIZE if width >= _HEAD_SIZE else 8
    return max(unit, round(width / unit) * unit)


def _heads(width: int) -> int:
    """Return the number of heads nearest to one per 128 of width, among those that divide it."""
    wanted = max(1, round(width / _HEAD_SIZE))
    return min(
        (count for count in range(1, 2 * wanted + 1) if width % count == 0),
        key=lambda count: abs(count - wanted),
    )


def _mlp_width(kind: str, width: int) -> int:
    """Return Llama's 2/3 · 4 · width, rounded up to a multiple of 256 (Touvron et al., 2023, and its
    code).
    """
    return -(-8 * width // (3 * 256)) * 256 if kind == "llama" else 4 * width


def _head_size(width: int, heads: int) -> int:
    if width % heads:
        raise ValueError(f"{heads} heads do not divide a width of {width} evenly")
    return width // heads


# Shape of a model from its Hugging Face config.json: llama, mistral, qwen2, qwen3 and gpt2.
#
# Keys and their defaults are those of transformers' `LlamaConfig`, `MistralConfig`, `Qwen2Config`,
# `Qwen3Config` and `GPT2Config`.

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
            f"model_type {kind!r} is not known here; expected one of {', '.join(KNOWN)}, or the numbers "
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
        head_size=_number(values, "head_dim", _default_head_size(width, heads)),
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
        head_size=_default_head_size(width, heads),
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


def _default_head_size(width: int, heads: int) -> int:
    if width % heads:
        raise UnknownModelError(f"{heads} heads do not divide a hidden size of {width} evenly")
    return width // heads


def _number(values: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = values.get(name)
    if value is None:
        value = default
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 2**31:
        wrong = f"{name} is {value!r}" if value is not None else f"it has no {name}"
        raise UnknownModelError(f"{wrong}; expected a whole number of 1 or more")
    return value


def _flag(values: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = values.get(name, default)
    if not isinstance(value, bool):
        raise UnknownModelError(f"{name} is {value!r}; expected true or false")
    return value
