"""What of a config memory depends on."""

from dataclasses import replace
from pathlib import Path

import pytest

from torchdeck.config.loader import config_from_dict
from torchdeck.config.schema import RunConfig
from torchdeck.plan.memory.spec import Kind, StrategySpec, spec_from
from torchdeck.plan.memory.zero_state import ZeroOptions


def config(**tables: object) -> RunConfig:
    return config_from_dict({"name": "x", "run": {"recipe": "byte-gpt"}, **tables}, Path("/somewhere"))


def test_numbers_come_from_the_config() -> None:
    """Each key that memory depends on is taken over."""
    training = {"microbatch": 6, "accumulation": 3, "precision": "bf16", "activation_checkpointing": True,
                "optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.0, "steps": 1}  # fmt: skip
    options = {"reshard_after_forward": False, "reduce_dtype": "bf16"}
    spec = spec_from(config(training=training, distributed={"strategy": "fsdp", "fsdp": options}), 8)
    assert (spec.kind, spec.world_size, spec.shard, spec.replicas) == ("fsdp", 8, 8, 1)
    assert (spec.microbatch, spec.accumulation, spec.precision, spec.checkpointing) == (6, 3, "bf16", True)
    assert (spec.optimizer, spec.momentum, spec.weight_decay) == ("sgd", 0.9, 0.0)
    assert (spec.reshard_after_forward, spec.param_size, spec.reduce_size) == (False, 2, 2)
    assert (spec.device, spec.backend, spec.cast) == ("cpu", "gloo", True)


def test_reduction_is_fp32_unless_said() -> None:
    """What auto means for gradients is what the strategy does."""
    training = {"precision": "bf16", "steps": 1}
    spec = spec_from(config(training=training, distributed={"strategy": "fsdp"}), 2, device="cuda")
    assert (spec.param_precision, spec.reduce_precision, spec.backend) == ("bf16", "fp32", "nccl")


@pytest.mark.parametrize(
    ("kind", "asked", "shard"),
    [
        ("single", None, 1),
        ("ddp", 4, 1),
        ("fsdp", None, 8),
        ("hsdp", 4, 4),
        ("hsdp", None, 8),
        ("zero3", None, 8),
    ],
)
def test_who_shards(kind: Kind, asked: int | None, shard: int) -> None:
    """One rank under ddp, all under fsdp and ZeRO, a group under hsdp."""
    assert StrategySpec("ddp", 8).with_kind(kind, shard=asked).shard == shard


def test_weights_are_cast_by_those_who_keep_them_so() -> None:
    """FSDP gathers and ZeRO keeps weights in 16 bit; under single and ddp autocast copies them."""
    casts = {
        kind: StrategySpec(kind, 2, precision="bf16", param_precision="bf16").cast
        for kind in ("single", "ddp", "fsdp", "hsdp", "zero1")
    }
    assert casts == {"single": False, "ddp": False, "fsdp": True, "hsdp": True, "zero1": True}


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_options_of_deepspeed_come_from_the_config(stage: int) -> None:
    """The stage is the kind; buckets and what is offloaded as they are written."""
    options = {
        "zero_stage": stage, "offload_optimizer": True, "bucket_size_mb": 8.0,
        "offload_parameters": stage == 3,
    }  # fmt: skip
    tables = {"training": {"steps": 1}, "distributed": {"strategy": "deepspeed", "deepspeed": options}}
    spec = spec_from(config(**tables), 4)
    assert (spec.kind, spec.shard, spec.offload) == (f"zero{stage}", 4, True)
    assert spec.offload_parameters == (stage == 3)
    assert ZeroOptions.of(spec).reduce_bucket == 2 * 2**20
    assert ZeroOptions.of(replace(spec, precision="bf16")).reduce_bucket == 4 * 2**20


def test_impossible_numbers_are_refused() -> None:
    """Groups that do not divide the ranks, no ranks, a strategy that is none."""
    with pytest.raises(ValueError, match="8 ranks cannot form groups of 3"):
        StrategySpec("hsdp", 8, shard=3)
    with pytest.raises(ValueError, match="world_size is 0; expected 1 or more"):
        StrategySpec("ddp", 0)
    with pytest.raises(ValueError, match="no strategy 'fsdp1'"):
        StrategySpec("fsdp1", 1)  # type: ignore[arg-type]
