"""Ranks that disagree about world size, strategy or model: each says so before the first step."""

from typing import Any

import pytest

from support.ranks.measured_ranks import Job, measure

pytestmark = pytest.mark.processes

SIZE = {"fsdp": {"wrap": "size"}}
DDP: Job = {"strategy": "ddp", "timeout": 60.0}
FSDP: Job = {"strategy": "fsdp", "timeout": 60.0, **SIZE}
JOBS: dict[str, Job] = {
    "world size": {"body": "world_sizes", "world_size": 3},
    "strategy": {"body": "strategies", "each": [DDP, FSDP]},
    "strategy in a group": {"body": "strategies", "each": [DDP, FSDP], "joined": True},
    "no strategy": {"body": "strategies", "each": [{**DDP, "timeout": 1.0}, None], "joined": True},
    "option": {"body": "strategies", "each": [DDP, {**DDP, "ddp": {"bucket_size_mb": 1.0}}]},
    "precision": {"body": "strategies", "each": [DDP, {**DDP, "precision": "bf16"}]},
    "nodes": {"body": "strategies", "each": [DDP, {**FSDP, "hsdp": {"shard": 1}}]},
    "other timeout": {"body": "strategies", "each": [DDP, {**DDP, "timeout": 30.0, "hsdp": {"shard": 1}}]},
    "functions": {"body": "functions"},
    **{
        f"{config['strategy']} {differ}": {"body": "models", "config": config, "differ": differ}
        for config in (DDP, FSDP)
        for differ in ("order", "names", "trained")
    },
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What the ranks of each job were told; all of them forked from one process."""
    jobs = [{"world_size": 2, **job} for job in JOBS.values()]
    return dict(zip(JOBS, measure("support.ranks.unlike_ranks:body", jobs), strict=True))


def test_another_world_size_is_named_at_once(found: dict[str, list[Any]]) -> None:
    """By the rank that has it and by those that wait, whichever came first."""
    for said in found["world size"]:
        assert "has WORLD_SIZE 3" in said or "and rank 2 has 4" in said or "has WORLD_SIZE 4" in said
        assert said.endswith("start every rank with the same WORLD_SIZE, the number of all ranks")


@pytest.mark.parametrize(
    ("job", "sentence"),
    [
        ("strategy", 'strategy is "ddp" on rank 0 and "fsdp" on rank 1'),
        ("strategy in a group", 'strategy is "ddp" on rank 0 and "fsdp" on rank 1'),
        ("functions", 'strategy is "ddp" on rank 0 and "fsdp" on rank 1'),
        ("nodes", 'strategy is "ddp" on rank 0 and "fsdp" on rank 1'),
        ("option", "ddp.bucket_size_mb is 25.0 on rank 0 and 1.0 on rank 1"),
        ("precision", 'precision is "fp32" on rank 0 and "bf16" on rank 1'),
    ],
)
def test_other_strategies_are_named_on_every_rank(
    found: dict[str, list[Any]], job: str, sentence: str
) -> None:
    """Before a model is wrapped, whose collectives would not fit together."""
    for said in found[job]:
        assert said == (
            f"ranks have different strategies: {sentence}. Start every rank with the same strategy, options "
            "and precision"
        )


def test_a_rank_without_a_strategy_is_named(found: dict[str, list[Any]]) -> None:
    assert found["no strategy"][0].startswith("rank 1 did not call DistributedStrategy.setup")


def test_what_changes_no_number_may_differ(found: dict[str, list[Any]]) -> None:
    """Timeouts, and tables of other strategies."""
    assert found["other timeout"] == ["", ""]


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
@pytest.mark.parametrize(
    ("differ", "why"),
    [
        ("order", "different models: order of tensors is"),
        ("names", "have different models: b."),
        ("trained", "different parameters to train (requires_grad): b.bias is true on rank 0 and false on"),
    ],
)
def test_other_models_are_named_on_every_rank(
    found: dict[str, list[Any]], strategy: str, differ: str, why: str
) -> None:
    """Order matters: gradients of equal shapes would be averaged with those of other parameters."""
    first, second = found[f"{strategy} {differ}"]
    assert first == second
    assert why in first
