"""Predicted peaks beside those of real ranks, for a list of configurations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from support.memory.compared_peak import ComparedPeak
from support.memory.limit_models import NAMES as LIMIT_MODELS
from support.memory.measured_models import recipe_of
from support.ranks.measured_ranks import Job, measure
from torchdeck.contract.plan.model_profile import ModelProfile
from torchdeck.distributed.rank_settings import FsdpSettings
from torchdeck.plan.memory.peak import predict_peak
from torchdeck.plan.memory.predict import verdict
from torchdeck.plan.memory.spec import FULLY_SHARDED, Kind, StrategySpec
from torchdeck.tracing.request import REQUEST_VERSION, TraceRequest, WantedTrace
from torchdeck.tracing.tracer import trace_loaded

DATA = {"max_bytes": 20_000}


@dataclass(frozen=True)
class Setting:
    """A training of a byte-gpt; `model` is (layers, heads, width, context)."""

    kind: Kind
    world_size: int
    model: tuple[int, int, int, int]
    microbatch: int
    precision: str = "fp32"
    accumulation: int = 1
    checkpointing: bool = False
    reshard: bool = True
    bucket_view: bool = True
    shard: int | None = None
    optimizer: str = "adamw"
    steps: int = 5
    recipe: str = "byte-gpt"
    """Or `half-frozen`, which takes the same options, or one of `limit_models`, which take none."""

    @property
    def name(self) -> str:
        """As a line of a table."""
        parts = [
            self.kind,
            f"{self.world_size} ranks",
            "x".join(map(str, self.model)),
            f"mb {self.microbatch}",
        ]
        parts += [self.precision, f"acc {self.accumulation}"]
        said = {
            "checkpointing": self.checkpointing,
            "no reshard": not self.reshard,
            "own gradients": not self.bucket_view,
            f"shard {self.shard}": self.shard is not None,
            self.optimizer: self.optimizer != "adamw",
            self.recipe: self.recipe != "byte-gpt",
        }
        return ", ".join(parts + [word for word, wanted in said.items() if wanted])

    @property
    def options(self) -> dict[str, int]:
        """The [model] table."""
        return (
            dict(zip(("layers", "heads", "width", "context"), self.model, strict=True)) if self.is_gpt else {}
        )

    @property
    def is_gpt(self) -> bool:
        """Whether it is a byte-gpt."""
        return self.recipe not in LIMIT_MODELS

    @property
    def spec(self) -> StrategySpec:
        """What the predictor is told."""
        spec = StrategySpec(
            self.kind,
            self.world_size,
            microbatch=self.microbatch,
            accumulation=self.accumulation,
            precision=self.precision,
            checkpointing=self.checkpointing,
            reshard_after_forward=self.reshard,
            param_precision=self.precision,
            gradient_as_bucket_view=self.bucket_view,
            optimizer=self.optimizer,
        )
        return spec.with_kind(self.kind, shard=self.shard)

    @property
    def job(self) -> Job:
        """What the ranks are told."""
        return {
            "world_size": self.world_size,
            "strategy": self.kind,
            "recipe": self.recipe,
            "model": self.options,
            "data": DATA if self.is_gpt else {},
            "fsdp": {"reshard_after_forward": self.reshard} if self.kind in FULLY_SHARDED else {},
            "ddp": {"gradient_as_bucket_view": self.bucket_view},
            "distributed": {"hsdp": {"shard": self.shard}} if self.shard else {},
            "training": {
                "steps": self.steps,
                "microbatch": self.microbatch,
                "accumulation": self.accumulation,
                "precision": self.precision,
                "activation_checkpointing": self.checkpointing,
                "optimizer": self.optimizer,
            },
        }


@dataclass(frozen=True)
class Compared(ComparedPeak):
    """Of a training of a byte-gpt, and how far its ranks and steps lie apart."""

    setting: Setting
    usual: int
    """Largest of all ranks, each in the best of its repeated steps, where no buffer was freed late."""
    least: int
    """Of the rank that needed the least, in the best of its repeated steps."""

    def verdict_at(self, capacity: int) -> str:
        """What would be said of a device of `capacity` bytes."""
        return verdict(self.predicted, self.high, capacity)


def compare(settings: Sequence[Setting]) -> list[Compared]:
    """Predict and measure each of `settings`."""
    profiles = [profile_of(setting) for setting in settings]
    found = measure("support.memory.measured_peak:measure_peak", [setting.job for setting in settings])
    return [
        Compared(
            setting,
            predict_peak(profile, setting.spec),
            measured=max(rank["peak"] for rank in ranks),
            usual=max(_best(rank) for rank in ranks),
            least=min(_best(rank) for rank in ranks),
        )
        for setting, profile, ranks in zip(settings, profiles, found, strict=True)
    ]


def _best(rank: dict[str, Any]) -> int:
    best: int = max(rank["setup"], min(rank["steps"][1:]))
    return best


def profile_of(setting: Setting) -> ModelProfile:
    """The model of `setting`, traced as it trains."""
    spec = setting.spec
    wanted = WantedTrace(spec.microbatch, cast=spec.cast, checkpointing=spec.checkpointing)
    request = TraceRequest(
        REQUEST_VERSION,
        setting.recipe,
        dict(setting.options),
        dict(DATA) if setting.is_gpt else {},
        precision=setting.precision,  # type: ignore[arg-type]  # one of its literals
        fsdp=FsdpSettings(),
        traces=(wanted,),
    )
    return trace_loaded(recipe_of(setting.recipe), request, lambda _: None)
