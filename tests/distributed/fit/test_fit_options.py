"""Options of DistributedTrainer on two real ranks: each does what it says, through fit."""

from typing import Any

import pytest

from support.ranks.measured_ranks import measure
from torchdeck.data.batch_plan import build_batch_plan, save_batch_plan

pytestmark = pytest.mark.processes

SAVING: list[dict[str, Any]] = [
    {"checkpoint_every": "epoch", "checkpoint": {"background": True, "keep_last": 5}},
    {"checkpoint_every": 1, "checkpoint": {"keep_last": 1, "final": False}},
    {"checkpoint_every": "auto"},
    {"checkpoint_every": 3, "checkpoint": {"keep_last": 1, "keep_best": 2, "best_metric": "validation_loss"}},
]
COMPUTING: list[dict[str, Any]] = [
    {"strategy": "ddp"},
    {"strategy": {"strategy": "fsdp", "fsdp": {"cpu_offload": True}}},
    {"strategy": {"strategy": "hsdp", "hsdp": {"shard": 2}}},
    {"precision": "bf16"},
]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What each rank found, by scenario."""
    jobs: list[dict[str, Any]] = [
        {"scenario": "averaged", "strategy": "fsdp"},
        {"scenario": "looked_into"},
        {"scenario": "saved_by_options", "options": SAVING},
        {"scenario": "computed_by", "options": COMPUTING},
        {"scenario": "scheduled"},
        {"scenario": "planned"},
        {"scenario": "left"},
    ]
    plan = tmp_path_factory.mktemp("plan") / "plan"
    save_batch_plan(build_batch_plan(range(1, 25), token_budget=32), plan)
    for job in jobs:
        folder = str(tmp_path_factory.mktemp(job["scenario"]))
        job |= {"world_size": 2, "folder": folder, "plan": str(plan)}
    found = measure("support.ranks.fit_ranks:run", jobs, limit=220)
    return {job["scenario"]: result for job, result in zip(jobs, found, strict=True)}


def test_a_moving_average_is_loaded_and_gone_on_with(ranks: dict[str, list[Any]]) -> None:
    """What is evaluated is the average, before and after it was saved; another trainer has the same one."""
    for saved, loaded, whole, resumed in ranks["averaged"]:
        assert saved == loaded
        assert whole == resumed
        assert saved != whole


def test_statistics_and_traces_are_made(ranks: dict[str, list[Any]]) -> None:
    for statistics, traced in ranks["looked_into"]:
        assert {"grad_norm/0.weight", "weight_std/3.bias"} <= set(statistics)
        assert traced


def test_checkpoints_are_kept_as_asked(ranks: dict[str, list[Any]]) -> None:
    epochs, newest, auto, best = ranks["saved_by_options"][0]
    assert epochs == ["final", "step_00000003"]
    assert newest == ["step_00000005"]
    assert auto == ["final"]
    assert best == ["final", "step_00000003"]


def test_losses_are_the_same_by_any_strategy(ranks: dict[str, list[Any]]) -> None:
    """bf16 rounds; the others do not."""
    ddp, offloaded, hybrid, rounded = ranks["computed_by"][0]
    assert offloaded == pytest.approx(ddp, rel=1e-4)
    assert hybrid == pytest.approx(ddp, rel=1e-4)
    assert rounded == pytest.approx(ddp, rel=3e-2)
    assert rounded != ddp


def test_a_schedule_is_that_of_the_newest_total(ranks: dict[str, list[Any]]) -> None:
    assert ranks["scheduled"][0] == pytest.approx([0.05, 0.1, 0.1, 0.0, 0.1 / 3, 0.0])


def test_a_batch_plan_gives_the_batches(ranks: dict[str, list[Any]]) -> None:
    """Every sample once, over both ranks."""
    assert sorted(ranks["planned"][0] + ranks["planned"][1]) == list(range(24))


def test_a_group_that_was_left_is_taken_down_at_once(ranks: dict[str, list[Any]]) -> None:
    """Not when the wrapped model goes, which would take it down holding the lock its threads may wait for."""
    for during, after, name in ranks["left"]:
        assert during > 0
        assert after == 0
        assert name == "module.0.bias"
