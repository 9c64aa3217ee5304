"""Converts arguments of DistributedTrainer to the trainer's settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from torchdeck.data.step_order import DataPosition
from torchdeck.distributed.checked import SettingsError, read_fields
from torchdeck.distributed.group.processes import this_rank
from torchdeck.distributed.settings import (
    SETTINGS_VERSION,
    CheckpointSettings,
    DistributedSettings,
    RecipeSettings,
    TelemetrySettings,
    TrainingSettings,
    check_ranges,
)
from torchdeck.distributed.strategies.base import DistributedStrategy
from torchdeck.environment import DistributedConfig

_DECIDED = ("steps", "epochs", "microbatch", "scaled_lr", "precision", "eval_every", "eval_every_epochs")
"""Fields of the training table that are decided elsewhere, and are no option of the same name."""


def chosen_strategy(
    given: str | Mapping[str, Any] | DistributedSettings | DistributedStrategy | None,
    precision: str,
    environment: DistributedConfig | None,
    *,
    by_blocks: bool,
) -> DistributedStrategy:
    """Return the specified strategy; the argument is not modified.

    If the model's blocks are unknown, sharding is by size unless another rule is requested.

    Raises:
        TypeError: it has an unsupported type.
        SettingsError: the strategy or precision does not exist, or it has an unknown option.
        ValueError: the given strategy computes in another precision.
    """
    if isinstance(given, DistributedStrategy):
        if given.precision.name != precision:
            raise ValueError(
                f"precision is {precision!r} and the strategy was made for {given.precision.name!r}: say the "
                "same in both places"
            )
        return given
    environment = environment or this_rank()
    if given is None:
        given = "ddp" if environment.world_size > 1 else "single"
    config = {"strategy": given} if isinstance(given, str) else given
    if not isinstance(config, (Mapping, DistributedSettings)):
        raise TypeError(
            f"strategy is {type(given).__name__}: give a name, a mapping with strategy and its options, or a "
            "DistributedStrategy"
        )
    if isinstance(config, Mapping) and not by_blocks:
        asked: Any = config.get("fsdp", {})
        config = {**config, "fsdp": {"wrap": "size", **asked}}
    return DistributedStrategy.from_config(config, precision=precision, environment=environment)


def make_settings(
    strategy: DistributedStrategy,
    *,
    training: Mapping[str, Any],
    checkpoint: Mapping[str, Any],
    checkpoint_every: int | str | None,
    telemetry: Mapping[str, Any],
    workers: int,
) -> RecipeSettings:
    """Return settings of a training; `fitted` adds the length and microbatch later.

    Raises:
        TypeError: there is no such option.
        SettingsError: a value has the wrong type or is out of range.
    """
    known = {field.name for field in dataclasses.fields(TrainingSettings)} - set(_DECIDED)
    unknown = sorted(set(training) - known)
    if unknown:
        raise TypeError(
            f"DistributedTrainer has no option {', '.join(unknown)}; options are {', '.join(sorted(known))}"
        )
    later = {"steps": 1, "epochs": None, "microbatch": 1}
    own = {"scaled_lr": training["lr"], "precision": strategy.precision.name}
    settings = RecipeSettings(
        version=SETTINGS_VERSION,
        recipe="DistributedTrainer",
        model={},
        data={"workers": workers},
        training=read_fields(TrainingSettings, {**training, **later, **own}, "training"),
        distributed=strategy.settings,
        checkpoint=read_fields(
            CheckpointSettings, {**checkpoint, **_cadence(checkpoint_every)}, "checkpoint"
        ),
        telemetry=read_fields(TelemetrySettings, dict(telemetry), "telemetry"),
    )
    check_ranges(settings)
    if settings.checkpoint.directory == "" and (checkpoint_every is not None or len(checkpoint) > 1):
        raise SettingsError("checkpoints are asked for, and there is no place for them: give checkpoint_dir")
    return settings


def fitted(
    settings: RecipeSettings,
    *,
    epochs: float | None,
    steps: int | None,
    microbatch: int,
    validation_size: int,
    validate_every: int | None,
    validation_batches: int | None,
) -> RecipeSettings:
    """Return `settings` for one call of fit.

    Raises:
        TypeError: not exactly one of `epochs` and `steps` is given.
        SettingsError: a value has the wrong type or is out of range.
    """
    if (epochs is None) == (steps is None):
        raise TypeError("give epochs or steps, one of them")
    if validate_every is not None and not validation_size:
        raise TypeError("validate_every is given without validation_data or validation_split")
    batches = validation_batches
    if batches is None:
        batches = max(1, -(-validation_size // max(1, microbatch)))
    values = {
        "epochs": epochs,
        "steps": steps,
        "microbatch": microbatch,
        "eval_every": validate_every,
        "eval_every_epochs": 1 if validation_size and validate_every is None else None,
        "eval_batches": batches,
    }
    training = read_fields(TrainingSettings, {**dataclasses.asdict(settings.training), **values}, "training")
    result = dataclasses.replace(settings, training=training)
    check_ranges(result)
    return result


def check_work_left(done: DataPosition, *, epochs: float | None, steps: int | None) -> None:
    """Raise ValueError if training has already reached the requested end."""
    if (steps is not None and done.step >= steps) or (epochs is not None and done.epoch >= epochs):
        asked = f"{steps} steps" if steps is not None else f"{epochs} epochs"
        raise ValueError(
            f"fit is asked for {asked} in all, and {done.step} steps and {done.epoch} epochs are done "
            "already: both count from the very start, so give more to continue"
        )


def _cadence(every: int | str | None) -> dict[str, Any]:
    if every == "auto":
        return {"auto": True}
    if every == "epoch":
        return {"every_epochs": 1}
    if every is None or type(every) is int:
        return {} if every is None else {"every": every}
    raise SettingsError(f'checkpoint_every is {every!r}; right is a number of steps, "epoch" or "auto"')
