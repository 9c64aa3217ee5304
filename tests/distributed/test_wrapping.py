"""Strategies in scripts of one's own, and models wrapped by one call, on real ranks."""

from pathlib import Path
from typing import Any

import pytest

from support.measured_ranks import Job, measure
from support.wrapped_ranks import mean_gradient

SCRIPTS: dict[str, Job] = {
    "single": {"world_size": 1, "config": {"strategy": "single"}},
    "ddp": {"world_size": 3, "config": {"strategy": "ddp"}},
    "ddp-small-buckets": {"world_size": 2, "config": {"strategy": "ddp", "ddp": {"bucket_size_mb": 0.0001}}},
    "fsdp": {"world_size": 3, "config": {"strategy": "fsdp"}},
    "fsdp-offload": {"world_size": 2, "config": {"strategy": "fsdp", "fsdp": {"cpu_offload": True}}},
    "hsdp": {"world_size": 4, "config": {"strategy": "hsdp", "hsdp": {"shard": 2}}},
}


@pytest.fixture(scope="module")
def scripts() -> dict[str, list[dict[str, Any]]]:
    """What each rank of each script found."""
    done = measure("support.wrapped_ranks:hand_written", list(SCRIPTS.values()))
    return dict(zip(SCRIPTS, done, strict=True))


@pytest.mark.parametrize("name", SCRIPTS)
def test_gradients_are_means_over_the_ranks(scripts: dict[str, list[dict[str, Any]]], name: str) -> None:
    """Whether the last backward reduces what was accumulated under no_sync, or sync_gradients does."""
    expected = mean_gradient(SCRIPTS[name]["world_size"], numbers=3)
    for rank in scripts[name]:
        assert rank["last"] == pytest.approx(expected, rel=1e-4, abs=1e-6)
        assert rank["afterwards"] == pytest.approx(expected, rel=1e-4, abs=1e-6)
        assert rank["norm"] == pytest.approx(sum(value**2 for value in expected) ** 0.5, rel=1e-4)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_checkpoint_by_one_call_brings_everything_back(
    scripts: dict[str, list[dict[str, Any]]], name: str
) -> None:
    """Weights bit for bit, the optimizer's state, the step, and what was given besides."""
    for rank in scripts[name]:
        assert rank["loaded"] == rank["stepped"]
        assert rank["momentum"]
        assert rank["step"] == 1
        assert rank["extra"] == {"note": "kept"}


CALLS: dict[str, Job] = {
    "ddp": {"how": "ddp", "joined": True, "options": {"bucket_size_mb": 1.0}},
    "ddp-by-hand": {"how": "ddp", "joined": "by hand", "options": {}},
    "ddp-by-environment": {"how": "ddp", "joined": False, "options": {}},
    "fsdp": {"how": "fsdp", "joined": True, "options": {}},
    "fsdp-grad-op": {
        "how": "fsdp",
        "joined": False,
        "blocks": True,
        "options": {"sharding": "grad-op", "activation_checkpointing": True},
    },
    "fsdp-hybrid": {"how": "fsdp", "joined": False, "options": {"sharding": "hybrid", "shard": 1}},
    "fsdp-offload": {"how": "fsdp", "joined": False, "options": {"cpu_offload": True}},
}


def test_one_call_wraps_a_model(tmp_path: Path) -> None:
    """DDP and every sharding of FSDP, in a group that is there, of which no variable may speak, or is made
    from torchrun's variables."""
    expected = mean_gradient(2, numbers=1)
    jobs = [{"world_size": 2, "file": str(tmp_path / "store"), **job} for job in CALLS.values()]
    for ranks in measure("support.wrapped_ranks:by_one_call", jobs):
        assert ranks == [pytest.approx(expected, rel=1e-4, abs=1e-6)] * 2


def test_models_that_are_not_the_same_are_refused_by_name() -> None:
    """Shapes under every strategy; weights where they are not broadcast. Each rank says the same."""
    kept = {"strategy": "ddp", "ddp": {"broadcast_parameters": False}}
    ddp, fsdp, weights, sent = measure(
        "support.wrapped_ranks:refused",
        [
            {"world_size": 2, "differ": "shapes", "config": {"strategy": "ddp"}},
            {"world_size": 2, "differ": "shapes", "config": {"strategy": "fsdp"}},
            {"world_size": 2, "differ": "weights", "config": kept},
            {"world_size": 2, "differ": "weights", "config": {"strategy": "ddp"}},
        ],
    )
    for said in (*ddp, *fsdp):
        assert "2.weight is [[3, 7]" in said
        assert "on rank 0 and [[4, 7]" in said
    assert len(set(weights)) == 1
    assert "different weights: 0.bias is" in weights[0]
    assert "set distributed.ddp.broadcast_parameters" in weights[0]
    assert sent == ["", ""]


def test_a_strategy_of_a_rank_that_no_variable_speaks_of(tmp_path: Path) -> None:
    """It meets the others where it was told to; in a group that is there it is that rank, or refuses."""
    job = {"world_size": 2, "file": str(tmp_path / "store")}
    (ranks,) = measure("support.wrapped_ranks:said_by_hand", [job])
    for rank, found in enumerate(ranks):
        refused = found.pop("refused")
        assert refused.startswith(f"this process was joined as rank {rank} of 2, and is to be rank 0 of 1")
        assert found == {
            "sum": [3.0],
            "during": [rank, rank],
            "after": [rank, rank],
            "left": True,
            "joined": [rank, rank, 3.0, rank, rank],
            "kept": True,
        }


def test_gradients_that_one_rank_has_are_synchronised() -> None:
    """A rank that did not use a parameter brings in zeros; what none used, or is frozen, has no gradient."""
    config = {"strategy": "ddp", "ddp": {"find_unused_parameters": True}}
    (ranks,) = measure("support.wrapped_ranks:used_by_one_rank", [{"world_size": 2, "config": config}])
    assert ranks == [[[0.5], [1.0], None, None]] * 2
