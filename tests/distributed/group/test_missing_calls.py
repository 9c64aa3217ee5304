"""Collective calls that some ranks do not make: an error names these ranks, on real ranks."""

import re
from typing import Any

import pytest

from support.ranks.measured_ranks import Job, measure

pytestmark = pytest.mark.processes

DDP = {"config": {"strategy": "ddp"}}
FSDP = {"config": {"strategy": "fsdp", "fsdp": {"wrap": "size"}}}
SHORT = {"timeout": 1.0}
JOBS: dict[str, Job] = {
    "save alone": {"body": "main_process_alone", "call": "save", **DDP, **SHORT},
    "load alone": {"body": "main_process_alone", "call": "load", **FSDP, **SHORT},
    "barrier alone": {"body": "main_process_alone", "call": "barrier", **DDP, **SHORT},
    "timeout of the strategy": {
        "body": "main_process_alone", "call": "save", "timeout": None,
        "strategy_timeout": 0.5, **DDP,
    },
    "check_agreement alone": {
        "body": "main_process_alone", "call": "check_agreement", "timeout": None,
        "strategy_timeout": 0.5, **DDP,
    },
    "one continues": {"body": "one_continues", **DDP},
    "save and load": {"body": "different_calls", "how": "call", **DDP},
    "other steps": {"body": "different_calls", "how": "step", **FSDP},
    "one leaves": {"body": "one_leaves", **DDP},
    "late": {"body": "late_rank", **DDP, **SHORT},
    **{
        f"plain {call}": {"body": "plain_torch", "call": call, **SHORT}
        for call in ("save", "restore", "auto_resume")
    },
    "own manager": {"body": "own_manager", **SHORT},
    "slow phase": {"body": "slow_phase", "world_size": 3, "timeout": 5.0},
    **{
        f"trainer {call}": {"body": "trainer_alone", "call": call, **SHORT}
        for call in ("fit", "save_checkpoint")
    },
    "together": {"body": "all_together", **FSDP},
}  # fmt: skip


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What the ranks of each job were told; all of them forked from one process."""
    jobs = []
    for job in JOBS.values():
        folder = tmp_path_factory.mktemp("ranks")
        jobs.append({"world_size": 2, "folder": str(folder), **job})
    return dict(zip(JOBS, measure("support.ranks.calling_ranks:body", jobs), strict=True))


@pytest.mark.parametrize(
    ("job", "call", "limit"),
    [
        ("save alone", "save", "1"),
        ("load alone", "load", "1"),
        ("barrier alone", "barrier", "1"),
        ("timeout of the strategy", "save", "0.5"),
        ("check_agreement alone", "check_agreement", "0.5"),
        ("plain save", "save", "1"),
        ("plain restore", "restore", "1"),
        ("plain auto_resume", "auto_resume", "1"),
        ("own manager", "CheckpointManager", "1"),
        ("trainer fit", "fit", "1"),
        ("trainer save_checkpoint", "save_checkpoint", "1"),
    ],
)
def test_a_rank_that_does_not_call_is_named_within_the_timeout(
    found: dict[str, list[Any]], job: str, call: str, limit: str
) -> None:
    """Whichever call the main process makes alone, with a strategy or without."""
    first, other = found[job]
    assert first == (
        f"rank 1 did not call {call} within {limit} s. Every rank must call {call}, not the main process "
        "alone"
    )
    assert other == ""


def test_a_rank_that_trains_on_is_seen_at_once(found: dict[str, list[Any]]) -> None:
    """Ranks of one machine see each other's steps, so that saving on the main process alone is refused."""
    first, other = found["one continues"]
    assert first.startswith("rank 1 did not call save: it continues with training step 2. Every rank must")
    assert other == ""


def test_a_rank_that_leaves_is_seen_at_once(found: dict[str, list[Any]]) -> None:
    assert found["one leaves"][0].startswith("rank 1 did not call save: it has ended, or left the process")


def test_different_calls_are_refused_at_once_on_every_rank(found: dict[str, list[Any]]) -> None:
    """Of another kind, or of another step."""
    for said in found["save and load"]:
        assert said == (
            "rank 0 called save (step 1), rank 1 called load: every rank must make the same calls in "
            "the same order"
        )
    for said in found["other steps"]:
        assert said.startswith("rank 0 called save (step 1), rank 1 called save (step 2): every rank must")


def test_a_rank_that_comes_too_late_is_told_so(found: dict[str, list[Any]]) -> None:
    """It does not begin what the others gave up, and nothing is saved."""
    for said, saved in found["late"]:
        assert said.startswith("rank 1 did not call save within 1 s")
        assert saved == "[]"


def test_a_rank_that_is_late_in_a_phase_is_not_called_gone(found: dict[str, list[Any]]) -> None:
    """It lives: every rank, the late one too, hears which one was waited for."""
    for said in found["slow phase"]:
        assert "gone" not in said
        assert re.search(r"writing the files failed: rank 1 did not finish this phase within 5 s", said)


def test_calls_that_all_ranks_make_go_on(found: dict[str, list[Any]]) -> None:
    """Any number of them, one after the other."""
    assert found["together"] == [[""] * 9] * 2
