"""Input of a rank: the recipe's settings from the plan, and its position from the launcher's variables.

Standard library only. The planner writes the settings as JSON into TORCHDECK_RECIPE. They are resolved there,
so the executing machine guesses nothing and adds no defaults.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict

from torchdeck.contract.arguments.checked_call import checked_class
from torchdeck.distributed.checked import OTHERS, SettingsError, read_fields

SETTINGS_VERSION = 1

DtypeName = Literal["auto", "fp32", "bf16", "fp16"]


@dataclass(frozen=True)
class TrainingSettings:
    """The [training] table; `scaled_lr` is `lr` after the scaling rule, and the one used."""

    steps: int | None
    epochs: float | None
    microbatch: int
    accumulation: int
    optimizer: Literal["adamw", "adam", "sgd"]
    lr: float
    scaled_lr: float
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.999)
    momentum: float = 0.0
    clip: float | None = None
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup_steps: int = 0
    min_lr_ratio: float = 0.1
    scaling: Literal["none", "linear", "sqrt"] = "none"
    reference_batch: int | None = None
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    batch_plan: str | None = None
    balance: Literal["none", "tokens", "attention"] = "none"
    activation_checkpointing: bool = False
    compile: bool = False
    deterministic: bool = False
    seed: int = 0
    eval_every: int | None = None
    eval_every_epochs: int | None = None
    """At the end of every such number of epochs; in addition to `eval_every`, which is in steps."""
    eval_batches: int = 16
    patience: int | None = None
    min_delta: float = 0.0
    ema: float | None = None
    check_every: int | None = 100


class TrainingOptions(TypedDict, total=False):
    """Fields of `TrainingSettings` that are further keywords of a DistributedTrainer."""

    weight_decay: float
    betas: tuple[float, float]
    momentum: float
    clip: float | None
    schedule: Literal["constant", "linear", "cosine"]
    warmup_steps: int
    min_lr_ratio: float
    balance: Literal["none", "tokens", "attention"]
    activation_checkpointing: bool
    compile: bool
    deterministic: bool
    seed: int
    patience: int | None
    min_delta: float
    ema: float | None
    check_every: int | None


class TrainerOptions(TrainingOptions, total=False):
    """The same, a path to a batch plan, and other spellings of arguments of a DistributedTrainer."""

    batch_plan: str | os.PathLike[str] | None
    gradient_accumulation_steps: int
    learning_rate: float | None
    max_norm: float | None
    num_workers: int


@dataclass(frozen=True)
class DdpSettings:
    """Options of DistributedDataParallel."""

    bucket_size_mb: float = 25.0
    find_unused_parameters: bool = False
    static_graph: bool = False
    gradient_as_bucket_view: bool = True
    broadcast_parameters: bool = True
    comm_hook: Literal["none", "bf16", "powersgd"] = "none"
    powersgd_rank: int = 2


class DdpOptions(TypedDict, total=False):
    """Fields of `DdpSettings`, as keywords of a function."""

    bucket_size_mb: float
    find_unused_parameters: bool
    static_graph: bool
    gradient_as_bucket_view: bool
    broadcast_parameters: bool
    comm_hook: Literal["none", "bf16", "powersgd"]
    powersgd_rank: int


@dataclass(frozen=True)
class FsdpSettings:
    """Options of FSDP2."""

    reshard_after_forward: bool = True
    cpu_offload: bool = False
    wrap: Literal["block", "size"] = "block"
    min_params: int = 1_000_000
    param_dtype: DtypeName = "auto"
    reduce_dtype: DtypeName = "auto"


@dataclass(frozen=True)
class HsdpSettings:
    """Options of hybrid sharding; `shard` is resolved: the number of ranks that shard the weights among
    them.
    """

    shard: int = 1


@checked_class
@dataclass(frozen=True)
class DistributedSettings:
    """Settings of the ranks' cooperation; the backend is resolved, `timeout` is in seconds."""

    strategy: str
    """Name of a registered one: torchdeck.distributed.strategies.base."""
    backend: Literal["gloo", "nccl"]
    timeout: float = 600.0
    ddp: DdpSettings = field(default_factory=DdpSettings)
    fsdp: FsdpSettings = field(default_factory=FsdpSettings)
    hsdp: HsdpSettings = field(default_factory=HsdpSettings)
    options: dict[str, Any] = field(default_factory=dict, metadata=OTHERS)
    """Tables of other strategies by name; each strategy reads its own."""


@dataclass(frozen=True)
class CheckpointSettings:
    """Location and schedule of checkpoints; `every` is in steps, None only at the end."""

    directory: str
    """Empty: nothing is saved."""
    every: int | None = None
    auto: bool = False
    """The ranks determine `every` themselves, from how long a save takes."""
    every_epochs: int | None = None
    mtbf: float = 24.0
    """Mean time between failures, hours."""
    max_stall: float = 0.035
    background: bool = False
    keep_last: int = 3
    keep_every: int | None = None
    keep_best: int = 0
    best_metric: str = "validation_loss"
    best_is: Literal["lowest", "highest"] = "lowest"
    final: bool = True
    replicas: int = 0
    """Number of other nodes that get a copy of a node's files, if nodes have their own disks."""


@dataclass(frozen=True)
class TelemetrySettings:
    """Measurements, and their intervals in steps."""

    every: int = 1
    stats_every: int | None = None
    profile_steps: tuple[int, int] | None = None


@dataclass(frozen=True)
class RecipeSettings:
    """The settings of a recipe run, from the variable TORCHDECK_RECIPE."""

    version: int
    recipe: str
    model: dict[str, Any]
    data: dict[str, Any]
    training: TrainingSettings
    distributed: DistributedSettings
    checkpoint: CheckpointSettings
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)

    @classmethod
    def from_json(cls, text: str) -> RecipeSettings:
        """Read and check the settings in `text`.

        Raises:
            SettingsError: not JSON, a newer version, or a field is missing, unknown, of the wrong type or
                out of range.
        """
        try:
            value = json.loads(text)
        except ValueError as error:
            raise SettingsError(f"TORCHDECK_RECIPE is not JSON: {error}") from None
        version = value.get("version") if isinstance(value, dict) else None
        if version != SETTINGS_VERSION:
            raise SettingsError(
                f"TORCHDECK_RECIPE has version {version!r}; this Torchdeck reads version {SETTINGS_VERSION}"
            )
        settings = read_fields(cls, value, "recipe")
        check_ranges(settings)
        return settings

    def to_be_same(self) -> dict[str, Any]:
        """Return the settings that must be the same on all ranks: all except a node's file locations."""
        values = dataclasses.asdict(self)
        del values["checkpoint"]["directory"]
        values["recipe"] = _wherever_it_lies(self.recipe)
        return values


def _wherever_it_lies(recipe: str) -> str:
    """Return a recipe's file as its name and content: each node has its own copy, at its own location."""
    file = Path(recipe)
    try:
        return f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}"
    except OSError:
        return recipe


def check_ranges(settings: RecipeSettings, named: Callable[[str], str] = str) -> None:
    """Check that numbers are in range, and that steps and epochs do not contradict each other.

    Args:
        settings: settings of the right types.
        named: function from a key of a run file to its name in messages. Default: the key itself.

    Raises:
        SettingsError: they are not.
    """
    training, checkpoint = settings.training, settings.checkpoint
    if (training.steps is None) == (training.epochs is None):
        raise SettingsError(f"give exactly one of {named('training.steps')} and {named('training.epochs')}")
    least = {
        "training.steps": (training.steps, 1),
        "training.microbatch": (training.microbatch, 1),
        "training.accumulation": (training.accumulation, 1),
        "training.warmup_steps": (training.warmup_steps, 0),
        "training.eval_every": (training.eval_every, 1),
        "training.eval_every_epochs": (training.eval_every_epochs, 1),
        "training.eval_batches": (training.eval_batches, 1),
        "training.seed": (training.seed, 0),
        "checkpoint.every": (checkpoint.every, 1),
        "checkpoint.every_epochs": (checkpoint.every_epochs, 1),
        "checkpoint.keep_last": (checkpoint.keep_last, 1),
        "checkpoint.keep_every": (checkpoint.keep_every, 1),
        "checkpoint.keep_best": (checkpoint.keep_best, 0),
        "checkpoint.replicas": (checkpoint.replicas, 0),
        "training.patience": (training.patience, 1),
        "training.check_every": (training.check_every, 1),
        "telemetry.every": (settings.telemetry.every, 1),
        "telemetry.stats_every": (settings.telemetry.stats_every, 1),
    }
    for name, (number, low) in least.items():
        if number is not None and number < low:
            raise SettingsError(f"{named(name)} is {number}", fix=f"expected {low} or more")
    positive = {
        "training.epochs": training.epochs,
        "training.clip": training.clip,
        "training.scaled_lr": training.scaled_lr,
        "distributed.timeout": settings.distributed.timeout,
    }
    for name, amount in positive.items():
        if amount is not None and not (math.isfinite(amount) and amount > 0):
            raise SettingsError(f"{named(name)} is {amount}", fix="expected a number above 0")
    if training.ema is not None and not 0 < training.ema < 1:
        raise SettingsError(
            f"{named('training.ema')} is {training.ema}", fix="expected a number above 0 and below 1"
        )
    if not training.min_delta >= 0:
        raise SettingsError(
            f"{named('training.min_delta')} is {training.min_delta}", fix="expected 0 or more"
        )
    first, last = settings.telemetry.profile_steps or (1, 1)
    if not 1 <= first <= last:
        raise SettingsError(
            f"{named('telemetry.profile_steps')} is [{first}, {last}]",
            fix="expected two steps from 1 on, in order",
        )
