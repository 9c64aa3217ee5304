"""Converts arguments of DistributedTrainer to the trainer's settings."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn
from torch.optim import Optimizer

from torchdeck.contract.arguments.errors import ArgumentError
from torchdeck.data.step_order import DataPosition
from torchdeck.distributed.checked import SettingsError, read_fields
from torchdeck.distributed.group.processes import this_rank
from torchdeck.distributed.rank_settings import (
    SETTINGS_VERSION,
    CheckpointSettings,
    DistributedSettings,
    RecipeSettings,
    TelemetrySettings,
    TrainingOptions,
    TrainingSettings,
    check_ranges,
)
from torchdeck.distributed.strategies.base import STRATEGIES, DistributedStrategy
from torchdeck.distributed.strategies.configs import HasStrategy, strategy_table
from torchdeck.environment import DistributedConfig

_NAMED = ("optimizer", "lr", "accumulation", "batch_plan")
"""Fields of the training table that are named arguments of DistributedTrainer."""


def chosen_strategy(
    given: str | Mapping[str, Any] | HasStrategy | DistributedStrategy | None,
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
            raise ArgumentError(
                f"precision is {precision!r} and the strategy was made for {given.precision.name!r}",
                fix="say the same in both places",
            )
        return given
    environment = environment or this_rank()
    if given is None:
        given = "ddp" if environment.world_size > 1 else "single"
    config: str | Mapping[str, Any] | HasStrategy = given
    if not isinstance(given, DistributedSettings):
        table = strategy_table(given, STRATEGIES)
        asked: Any = table.get("fsdp", {})
        config = table if by_blocks else {**table, "fsdp": {"wrap": "size", **asked}}
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
    settings = RecipeSettings(
        version=SETTINGS_VERSION,
        recipe="DistributedTrainer",
        model={},
        data={"workers": workers},
        training=_training_settings(training, strategy.precision.name),
        distributed=strategy.settings,
        checkpoint=read_fields(
            CheckpointSettings, {**checkpoint, **_cadence(checkpoint_every)}, "checkpoint"
        ),
        telemetry=read_fields(TelemetrySettings, dict(telemetry), "telemetry"),
    )
    check_ranges(settings, argument_name)
    if settings.checkpoint.directory == "" and (checkpoint_every is not None or len(checkpoint) > 1):
        raise SettingsError(
            "checkpoints are asked for, and there is no place for them", fix="give checkpoint_dir"
        )
    return settings


def _training_settings(given: Mapping[str, Any], precision: str) -> TrainingSettings:
    """Return the training table of arguments; its length and microbatch are placeholders."""
    known = {*TrainingOptions.__annotations__, *_NAMED}
    unknown = sorted(set(given) - known)
    if unknown:
        raise ArgumentError(
            f"DistributedTrainer has no option {', '.join(unknown)}",
            fix=f"options are {', '.join(sorted(known))}",
        )
    plan = given.get("batch_plan")
    if plan is None and given.get("balance", "none") != "none":
        raise ArgumentError(
            f"balance is {given['balance']!r}, which is for the microbatches of a batch plan",
            fix="give batch_plan, or leave out balance",
        )
    table = {
        **given,
        "batch_plan": os.fspath(plan) if isinstance(plan, os.PathLike) else plan,
        "scaled_lr": given["lr"],
        "precision": precision,
        "steps": 1,
        "epochs": None,
        "microbatch": 1,
    }
    return read_fields(TrainingSettings, table, "")


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
        raise ArgumentError("fit has no end, or two", fix="give epochs or steps, one of them")
    if validate_every is not None and not validation_size:
        raise ArgumentError(
            "validate_every is given without validation data", fix="give validation_data or validation_split"
        )
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
    training = read_fields(TrainingSettings, {**dataclasses.asdict(settings.training), **values}, "")
    result = dataclasses.replace(settings, training=training)
    check_ranges(result, argument_name)
    return result


_ARGUMENTS = {
    "training.scaled_lr": "lr",
    "training.eval_every": "validate_every",
    "training.eval_batches": "validation_batches",
    "checkpoint.every": "checkpoint_every",
    "telemetry.every": "log_every",
    "distributed.timeout": "the timeout of the strategy",
}
"""Key of a run file → argument that sets it, unless it is the key's last word."""


def argument_name(key: str) -> str:
    """Return the argument of DistributedTrainer that sets a key of a run file."""
    table, _, name = key.rpartition(".")
    return _ARGUMENTS.get(key, f'checkpoint["{name}"]' if table == "checkpoint" else name)


def check_work_left(done: DataPosition, *, epochs: float | None, steps: int | None) -> None:
    """Raise ValueError if training has already reached the requested end."""
    if (steps is not None and done.step >= steps) or (epochs is not None and done.epoch >= epochs):
        asked = f"{steps} steps" if steps is not None else f"{epochs} epochs"
        raise ArgumentError(
            f"fit is asked for {asked} in all, and {done.step} steps and {done.epoch} epochs are done "
            "already",
            fix="both count from the very start, so give more to continue",
        )


def _cadence(every: int | str | None) -> dict[str, Any]:
    if every == "auto":
        return {"auto": True}
    if every == "epoch":
        return {"every_epochs": 1}
    if every is None or type(every) is int:
        return {} if every is None else {"every": every}
    raise SettingsError(f'checkpoint_every is {every!r}; expected a number of steps, "epoch" or "auto"')


# Optimizer of an in-memory training: by name, from a function, or an existing one.


def own_optimizer(
    given: str | Optimizer | Callable[[Any], Any], model: nn.Module, lr: float | None
) -> OwnOptimizer | None:
    """Return the user's own optimizer; None if one is named.

    Raises:
        TypeError: `lr` is given with an optimizer that has its own.
        ValueError: it has parameters that are not the model's.
    """
    if isinstance(given, str):
        return None
    own = OwnOptimizer(given, model)
    if lr is not None:
        raise ArgumentError("lr is given, but the optimizer has its own", fix="leave one of them out")
    return own


class OwnOptimizer:
    """The user's own optimizer, over the model's parameters after a strategy has wrapped it.

    Args:
        given: an optimizer over `model`'s parameters, or a function from its trainable parameters to one.
        model: not wrapped yet.

    Raises:
        ValueError: the optimizer has parameters that are not the model's.
    """

    def __init__(self, given: Optimizer | Callable[[Any], Any], model: nn.Module) -> None:
        self._given = given
        self._names: list[list[str]] = []
        self.lr = 0.0
        """Its learning rate, once it was built; groups that have another keep their share of it."""
        if isinstance(given, Optimizer):
            names = {id(parameter): name for name, parameter in model.named_parameters()}
            self._names = [
                [_named(names, parameter) for parameter in group["params"]] for group in given.param_groups
            ]

    def build(self, model: nn.Module) -> Optimizer:
        """Return the optimizer of the wrapped model.

        Raises:
            TypeError: the function did not return an optimizer.
            ValueError: it has no learning rate above 0, or state for parameters that sharding has replaced.
        """
        given = self._given
        optimizer = given if isinstance(given, Optimizer) else self._made(given, model)
        if isinstance(given, Optimizer):
            self._rebind(given, dict(model.named_parameters()))
        self.lr = float(optimizer.defaults.get("lr") or 0.0)
        if not self.lr > 0:
            raise ArgumentError(
                "the optimizer has no learning rate above 0", "nothing would be learned", "give it one"
            )
        return optimizer

    def in_settings(self, settings: RecipeSettings) -> RecipeSettings:
        """Return `settings` with the optimizer's learning rate; call it after `build`."""
        training = dataclasses.replace(settings.training, lr=self.lr, scaled_lr=self.lr)
        return dataclasses.replace(settings, training=training)

    def _made(self, make: Callable[[Any], Any], model: nn.Module) -> Optimizer:
        made = make([parameter for parameter in model.parameters() if parameter.requires_grad])
        if not isinstance(made, Optimizer):
            raise ArgumentError(
                f"optimizer(parameters) returned {type(made).__name__}",
                fix="return a torch.optim.Optimizer, as functools.partial(torch.optim.AdamW, lr=1e-3) does",
            )
        return made

    def _rebind(self, optimizer: Optimizer, parameters: dict[str, nn.Parameter]) -> None:
        """Replace the optimizer's parameters with the model's current ones, by name."""
        for group, names in zip(optimizer.param_groups, self._names, strict=True):
            members = [parameters[name] for name in names]
            replaced = any(now is not then for now, then in zip(members, group["params"], strict=True))
            if replaced and optimizer.state:
                raise ArgumentError(
                    "the optimizer has state already, and sharding replaces the parameters it is for",
                    fix="give a fresh optimizer, and load_checkpoint() what was saved",
                )
            group["params"] = members


def _named(names: dict[int, str], parameter: Any) -> str:
    if id(parameter) not in names:
        raise ArgumentError(
            f"the optimizer has a parameter of shape {tuple(parameter.shape)} that is not the model's",
            fix="make it of model.parameters()",
        )
    return names[id(parameter)]
