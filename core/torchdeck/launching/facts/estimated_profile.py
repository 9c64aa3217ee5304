"""Profile of a model described by [estimate], for runs whose model cannot be traced. Imports numpy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchdeck.config.distributed import Distributed
from torchdeck.config.schema import RunConfig
from torchdeck.contract.bounded_file import UnreadableFileError, read_bounded
from torchdeck.contract.bounded_json import JsonError, parse_json
from torchdeck.contract.plan.model_profile import ModelProfile
from torchdeck.launching.facts.profiling import wanted_traces
from torchdeck.plan.memory.closed_form_profile import closed_form_profile
from torchdeck.plan.memory.model_shape import ModelShape
from torchdeck.plan.memory.shape_derivation import EstimateError, derive_shape

_MOST_SCALED = 2.0
"""Maximum ratio between the given parameter count and that of the shape."""
_NARROW = {"bfloat16": "bf16", "float16": "fp16"}
"""`torch_dtype` of a config.json → precision."""
_MOST_BYTES = 2**20
"""Size limit of a config.json, which is usually some kilobytes."""


def estimated_config(config: RunConfig) -> RunConfig:
    """Return `config` with the [estimate] values of a script's training in [training].

    A script ignores [training], but the memory planner reads the values there.
    """
    estimate = config.estimate
    known = {
        "microbatch": estimate.microbatch,
        "precision": estimate.precision,
        "activation_checkpointing": estimate.checkpointing,
        "optimizer": estimate.optimizer,
    }
    given = {name: value for name, value in known.items() if value is not None}
    return config.model_copy(update={"training": config.training.model_copy(update=given)})


def estimate_profile(config: RunConfig) -> ModelProfile:
    """Return the profile of the model that [estimate] describes; no user code is run.

    Raises:
        EstimateError: it describes none, or its config.json cannot be read.
    """
    estimate = config.estimate
    file = None if estimate.config is None else _read(Path(estimate.config))
    derived = derive_shape(estimate, file)
    _check_size(derived.shape, estimate.parameters)
    trained = estimated_config(config)
    try:
        return closed_form_profile(
            derived.shape,
            precision=trained.training.precision,
            wanted=[(want.microbatch, want.cast, want.checkpointing) for want in wanted_traces(trained)],
            parameters=None if estimate.parameters is None else int(estimate.parameters),
            eager_attention=estimate.attention == "eager",
            dropout=estimate.dropout,
            notes=(*derived.notes, *_assumed(config, trained, file or {})),
        )
    except ValueError as error:
        raise EstimateError(f"[estimate] describes no model: {error}") from error
    except OverflowError as error:
        raise EstimateError("[estimate] describes a model of more bytes than can be counted") from error


def _assumed(config: RunConfig, trained: RunConfig, file: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the assumptions about a script's training that are not configured; for a recipe, [training] has
    them.
    """
    if config.run.recipe is not None:
        return ()
    names = ("microbatch", "precision", "optimizer")
    told = [
        f"{name} = {getattr(trained.training, name)}"
        for name in names
        if getattr(config.estimate, name) is None
    ]
    if config.distributed.strategy == Distributed.model_fields["strategy"].default:
        told.append(f"distributed.strategy = {config.distributed.strategy}")
    notes: tuple[str, ...] = (
        (f"assumed for the script, because nothing else is given: {', '.join(told)}",) if told else ()
    )
    stored = file.get("torch_dtype", file.get("dtype"))
    if config.estimate.precision is None and isinstance(stored, str) and stored in _NARROW:
        stored_only = (
            f"the config.json has weights in {stored}, which says how they are stored and not how they"
        )
        notes += (
            f'{stored_only} are trained: with autocast to it write estimate.precision = "{_NARROW[stored]}"',
        )
    return notes


def _check_size(shape: ModelShape, parameters: float | None) -> None:
    """Check the size: blocks are scaled to reach `parameters`, so a shape far from it belongs to another
    model.
    """
    if parameters is not None and not 1 / _MOST_SCALED <= parameters / shape.parameters <= _MOST_SCALED:
        raise EstimateError(
            f"[estimate] describes no model: {parameters:,.0f} parameters do not go with its other numbers, "
            f"{shape.layers} layers of width {shape.width:,}, which make {shape.parameters:,}"
        )


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = read_bounded(path, _MOST_BYTES)
    except UnreadableFileError as error:
        raise EstimateError(f"estimate.config {error}") from error
    except OSError as error:
        raise EstimateError(f"estimate.config {path} cannot be read: {error.strerror}") from error
    try:
        values = parse_json(content)
    except JsonError as error:
        raise EstimateError(f"estimate.config {path} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise EstimateError(f"estimate.config {path} is not a JSON object; expected: a model's config.json")
    return values
