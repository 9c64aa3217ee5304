"""The profile of a model that [estimate] describes, for runs whose model cannot be traced."""

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
from torchdeck.plan.memory.closed_form.model_shape import ModelShape
from torchdeck.plan.memory.closed_form.profile import closed_form_profile
from torchdeck.plan.memory.closed_form.shape_derivation import EstimateError, derive_shape

_MOST_SCALED = 2.0
"""How far the parameters that are given may be from those of the shape."""
_NARROW = {"bfloat16": "bf16", "float16": "fp16"}
"""`torch_dtype` of a config.json → precision."""
_MOST_BYTES = 2**20
"""A config.json is some kilobytes."""


def estimated_config(config: RunConfig) -> RunConfig:
    """`config` whose [training] says what [estimate] says of a script's training.

    A script reads no [training]; what plans its memory finds it there all the same.
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
    """The profile of the model that [estimate] describes; no code of the user's is run.

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
    """What nobody has said of a script's training; of a recipe [training] does."""
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
        (f"assumed of the script, as nothing else is written: {', '.join(told)}",) if told else ()
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
    """Blocks are scaled to reach `parameters`; a shape far from them is another model's."""
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
        raise EstimateError(f"estimate.config {path} holds no object; right is a model's config.json")
    return values
