"""Shape of a model from [estimate]; missing values are derived, and each derivation is reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from torchdeck.config.estimate import Estimate
from torchdeck.plan.memory.closed_form.hugging_face import UnknownModelError, shape_from_config
from torchdeck.plan.memory.closed_form.model_shape import ModelShape

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
