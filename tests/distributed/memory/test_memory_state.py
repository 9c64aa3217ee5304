"""Predicted state against what real gloo ranks hold: not a byte of difference."""

import dataclasses
from typing import Any

import pytest

from support.memory.measured_models import SHAPES, profile_of
from support.ranks.measured_ranks import measure
from torchdeck.plan.memory.spec import StrategySpec
from torchdeck.plan.memory.training_state import sharded_state

pytestmark = pytest.mark.processes

GPT = {"layers": 2, "heads": 2, "width": 18, "context": 10, "tie_weights": True}
MODELS: list[tuple[str, dict[str, Any]]] = [("shapes", {}), ("vision", {}), ("byte-gpt", GPT)]
WITH_SCALAR = [*MODELS, ("shapes with a scalar", {})]
"""FSDP shards nothing without a dim 0."""
SGD = {"optimizer": "sgd", "momentum": 0.9}

USUAL, MORE = (1, 2, 3), (4, 5, 6, 7, 8)
"""World sizes of a normal run, and those that a soak adds."""
JOBS: list[dict[str, Any]] = [
    *({"world_size": world, "strategy": "fsdp", "models": MODELS} for world in USUAL),
    {"world_size": 2, "strategy": "fsdp", "models": MODELS, "optimizer": SGD},
    {"world_size": 2, "strategy": "fsdp", "models": [("byte-gpt", GPT)], "precision": "bf16"},
    {"world_size": 4, "strategy": "hsdp", "models": MODELS, "distributed": {"hsdp": {"shard": 2}}},
    {"world_size": 1, "strategy": "single", "models": WITH_SCALAR},
    {"world_size": 1, "strategy": "single", "models": WITH_SCALAR, "optimizer": {"optimizer": "sgd"}},
    {"world_size": 2, "strategy": "ddp", "models": WITH_SCALAR},
    {"world_size": 2, "strategy": "ddp", "models": MODELS, "optimizer": {"ema": 0.9}},
    {"world_size": 2, "strategy": "fsdp", "models": MODELS, "optimizer": {"ema": 0.9}},
    {"world_size": 2, "strategy": "ddp", "models": MODELS, "ddp": {"gradient_as_bucket_view": False}},
    *({"world_size": world, "strategy": "fsdp", "models": MODELS} for world in MORE),
    {"world_size": 6, "strategy": "hsdp", "models": MODELS, "distributed": {"hsdp": {"shard": 3}}},
    {"world_size": 3, "strategy": "fsdp", "models": MODELS, "optimizer": SGD},
]
SOAKED = len(MORE) + 2
"""So many at the end are for a soak."""


@pytest.fixture(scope="module")
def measured(request: pytest.FixtureRequest) -> list[list[Any]]:
    training = {"steps": 1, "microbatch": 2}
    jobs = [
        {
            **job,
            "training": {**training, **job.get("optimizer", {}), "precision": job.get("precision", "fp32")},
        }
        for job in (JOBS if request.config.getoption("--soak") else JOBS[:-SOAKED])
    ]
    return measure("support.memory.measured_state:measure_state", jobs)


def spec_of(job: dict[str, Any]) -> StrategySpec:
    world_size, optimizer = job["world_size"], dict(job.get("optimizer", {}))
    optimizer["ema"] = "ema" in optimizer
    spec = StrategySpec(job["strategy"], world_size, **{"optimizer": "adamw", **optimizer})
    shard = job.get("distributed", {}).get("hsdp", {}).get("shard")
    return spec.with_kind(spec.kind, shard=shard)


@pytest.mark.parametrize(
    "index",
    [
        pytest.param(index, marks=[pytest.mark.soak] if index >= len(JOBS) - SOAKED else [])
        for index in range(len(JOBS))
    ],
)
def test_state_is_exact(measured: list[list[Any]], index: int) -> None:
    """Parameters, gradients, optimizer state and buffers of each rank of each model."""
    job, spec = JOBS[index], spec_of(JOBS[index])
    for recipe, options in job["models"]:
        predicted = sharded_state(profile_of(recipe, options), spec)
        for rank, models in enumerate(measured[index]):
            kinds = ("parameters", "gradients", "optimizer", "buffers")
            ours = {kind: int(getattr(predicted, kind)[rank % spec.shard]) for kind in kinds}
            assert ours == {kind: models[recipe][kind] for kind in kinds}, (recipe, rank)


@pytest.mark.parametrize("world", [*USUAL, *(pytest.param(world, marks=pytest.mark.soak) for world in MORE)])
def test_each_shape_is_exact(measured: list[list[Any]], world: int) -> None:
    """Stored rows of every single shape, padding included, on every rank of a sharded world."""
    assert len(SHAPES) >= 40
    index = next(i for i, job in enumerate(JOBS) if job["strategy"] == "fsdp" and job["world_size"] == world)
    profile = profile_of("shapes")
    for tensor in profile.parameters:
        alone = dataclasses.replace(profile, parameters=(tensor,), buffers=())
        predicted = sharded_state(alone, spec_of(JOBS[index])).parameters
        held = [models["shapes"]["parameter"][tensor.name] for models in measured[index]]
        assert predicted.tolist() == held, tensor
