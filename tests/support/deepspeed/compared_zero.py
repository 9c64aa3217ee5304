"""Predicted peaks under ZeRO beside those of real DeepSpeed ranks, for a list of configurations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from support.memory.compared_peak import ComparedPeak
from support.memory.measured_memory import DATA, Setting, profile_of
from support.ranks.torch_process import run_torch
from support.system.deepspeed_python import deepspeed_environment, deepspeed_python
from torchdeck.plan.memory.peak import predict_peak
from torchdeck.plan.memory.spec import StrategySpec
from torchdeck.plan.memory.zero_state import ZeroOptions


@dataclass(frozen=True)
class ZeroSetting:
    """A training under DeepSpeed; `like` says which, its kind zero1, zero2 or zero3."""

    like: Setting
    options: ZeroOptions
    offload: bool = False

    @property
    def name(self) -> str:
        """As a line of a table."""
        return f"{self.like.name}, bucket {self.options.reduce_bucket:,}{', offload' * self.offload}"

    @property
    def spec(self) -> StrategySpec:
        """What the predictor is told."""
        return replace(self.like.spec, offload=self.offload)

    @property
    def case(self) -> dict[str, Any]:
        """What the ranks are told."""
        like, options = self.like, self.options
        zero: dict[str, Any] = {
            "stage": int(like.kind.removeprefix("zero")),
            "reduce_bucket_size": options.reduce_bucket,
            "stage3_param_persistence_threshold": options.persistence,
            "stage3_max_live_parameters": options.max_live,
            "stage3_prefetch_bucket_size": options.prefetch,
        }
        if self.offload:
            zero["offload_optimizer"] = {"device": "cpu"}
        return {
            "model": like.options,
            "data": DATA,
            "microbatch": like.microbatch,
            "accumulation": like.accumulation,
            "optimizer": like.optimizer,
            "fused": like.optimizer == "adamw",
            "vectors_apart": options.vectors_apart,
            "frozen": [],
            "config": {
                "train_micro_batch_size_per_gpu": like.microbatch,
                "gradient_accumulation_steps": like.accumulation,
                "zero_allow_untested_optimizer": True,
                "zero_force_ds_cpu_optimizer": False,  # its own one is compiled at the first use
                "zero_optimization": zero,
                "bf16": {"enabled": like.precision == "bf16"},
            },
        }


@dataclass(frozen=True)
class ComparedZero(ComparedPeak):
    """Of a training under DeepSpeed."""

    setting: ZeroSetting


def compare_zero(settings: Sequence[ZeroSetting], folder: Path) -> list[ComparedZero]:
    """Predict and measure each of `settings`, which are of one world size."""
    (world_size,) = {setting.like.world_size for setting in settings}
    request, answer = folder / "request.json", folder / "peaks.json"
    cases = [setting.case for setting in settings]
    request.write_text(json.dumps({"world_size": world_size, "cases": cases}))
    python: Any = deepspeed_python()
    argv = ["-m", "support.deepspeed.measured_zero", str(request), str(answer)]
    result = run_torch(
        argv, env={**deepspeed_environment(), "KINETO_LOG_LEVEL": "5"}, python=python, limit=600
    )
    if result.returncode:
        raise RuntimeError((result.stdout + result.stderr)[-4000:])
    return [
        ComparedZero(
            setting,
            predict_peak(profile_of(setting.like), setting.spec, setting.options),
            measured=max(max(rank["setup"], *rank["steps"]) for rank in ranks),
        )
        for setting, ranks in zip(settings, json.loads(answer.read_text()), strict=True)
    ]
