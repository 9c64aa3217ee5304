"""What DeepSpeed is told, and that it is asked for before anything else."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

from torchdeck.config.loader import config_from_dict
from torchdeck.distributed.precision import Precision
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.distributed.strategies.base import DistributedStrategy
from torchdeck.distributed.strategies.deepspeed.strategy import DeepSpeedSettings, engine_config
from torchdeck.environment import DistributedConfig
from torchdeck.plan.memory.spec import spec_from
from torchdeck.plan.memory.zero_state import ZeroOptions

CPU = torch.device("cpu")
ALONE = DistributedConfig.from_env({}, rank=0, world_size=1)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("size", [0.000001, 0.37, 50.0])
def test_buckets_are_those_the_plan_counts_with(precision: str, size: float, tmp_path: Path) -> None:
    """In elements of the run's precision."""
    told = engine_config(DeepSpeedSettings(bucket_size_mb=size), Precision(precision), CPU)
    tables = {
        "run": {"recipe": "byte-gpt"},
        "training": {"steps": 1, "precision": precision},
        "distributed": {"strategy": "deepspeed", "deepspeed": {"bucket_size_mb": size}},
    }
    spec = spec_from(config_from_dict(tables, tmp_path), 2)
    assert told["zero_optimization"]["reduce_bucket_size"] == ZeroOptions.of(spec).reduce_bucket


def test_nothing_is_left_to_deepspeed_that_the_trainer_does() -> None:
    """Accumulation, clipping and the choice of optimizer; a stage and offload are what was set."""
    settings = DeepSpeedSettings(zero_stage=3, offload_optimizer=True, offload_parameters=True)
    told = engine_config(settings, Precision("bf16"), CPU)
    assert (told["gradient_accumulation_steps"], told["gradient_clipping"]) == (1, 0.0)
    assert told["zero_force_ds_cpu_optimizer"] is False
    assert told["bf16"] == {"enabled": True}
    zero = told["zero_optimization"]
    assert zero["stage"] == 3
    assert zero["offload_optimizer"] == zero["offload_param"] == {"device": "cpu", "pin_memory": False}
    assert "fp16" not in told


@pytest.mark.skipif(importlib.util.find_spec("deepspeed") is not None, reason="DeepSpeed is installed here")
def test_a_rank_without_deepspeed_says_what_to_install() -> None:
    """Before it waits for other ranks."""
    strategy = DistributedStrategy.from_config({"strategy": "deepspeed"}, environment=ALONE)
    with pytest.raises(RecipeError, match=r"there is no DeepSpeed in .*pip install 'torchdeck\[deepspeed\]'"):
        strategy.setup()
