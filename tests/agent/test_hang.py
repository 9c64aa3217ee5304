"""Who is stalled, and since when that is too long."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.waiting import wait_until
from torchdeck.agent.ranks.hang import HangWatch, Standing, culprit, hang_limit
from torchdeck.contract.processes import read_stat
from torchdeck.contract.run_states import RankPhase


def standing(
    rank: int, still: float, *, step: int = 5, phase: RankPhase = RankPhase.TRAINING, watched: bool = True
) -> Standing:
    return Standing(rank, phase, step, still, 1.0, watched, None)


@given(st.floats(0, 1e6), st.one_of(st.none(), st.floats(0, 1e6)))
def test_the_limit_is_the_larger_of_two(hang_after: float, slow: float | None) -> None:
    """max(hang_after, 5 × the 99th percentile step)."""
    assert hang_limit(hang_after, slow) == max(hang_after, 5 * (slow or 0))


def test_a_hang_is_told_once_and_its_end_too() -> None:
    """Flagged when over the limit, not again while it lasts, over when the rank moves."""
    watch = HangWatch(30.0)
    assert watch.look({0: standing(0, 29)}) == ([], [])
    hangs, _ = watch.look({0: standing(0, 31)})
    assert [(hang.rank, hang.phase, hang.limit) for hang in hangs] == [(0, "training", 30.0)]
    assert watch.look({0: standing(0, 60)}) == ([], [])
    assert watch.look({0: standing(0, 1, step=6)}) == ([], [0])
    assert watch.look({0: standing(0, 31, step=6)})[0]


def test_phases_that_are_not_watched_are_never_flagged() -> None:
    """Compiling and saving take as long as they take; a flagged rank that begins to save is no hang
    any more."""
    watch = HangWatch(30.0)
    assert watch.look({0: standing(0, 1e6, phase=RankPhase.COMPILING, watched=False)}) == ([], [])
    watch.look({0: standing(0, 31)})
    assert watch.look({0: standing(0, 31, phase=RankPhase.SAVING, watched=False)}) == ([], [0])


def test_a_rank_that_exits_hangs_no_more() -> None:
    """Its hang is over when it is gone; an adopting agent knows of flags from before."""
    assert HangWatch(30.0, [3]).look({}) == ([], [3])


def test_the_rank_behind_is_named() -> None:
    """Ranks that wait say for whom; the one behind says so."""
    ranks = {0: standing(0, 40, step=7), 1: standing(1, 41, step=6)}
    assert culprit(ranks, 0) == "rank 0 waits; rank 1 is behind at step 6, in phase training"
    assert culprit(ranks, 1) == "rank 1 is behind: others are at step 7"


def test_where_nothing_is_known_it_is_said_how_to_look() -> None:
    """A process that lives and is nobody's culprit: the command that shows where it is, and no repetition."""
    alone = standing(0, 40)._replace(pid=os.getpid())
    assert culprit({0: alone}, 0) == f"`py-spy dump --pid {os.getpid()}` shows where its program is"
    assert culprit({0: standing(0, 40)}, 0) == ""


@pytest.mark.processes
def test_a_stopped_process_is_named() -> None:
    """The state in /proc says why it stands, and what would let it continue."""
    child = subprocess.Popen(["sleep", "60"])
    try:
        os.kill(child.pid, signal.SIGSTOP)
        wait_until(lambda: (stat := read_stat(child.pid)) and stat.state == "T", 5, "the child to stop")
        ranks = {0: standing(0, 40), 1: standing(1, 40)._replace(pid=child.pid)}
        assert "rank 1 is stopped (SIGSTOP)" in culprit(ranks, 1)
        assert culprit(ranks, 0).startswith("rank 0 waits; rank 1 is stopped")
        assert f"kill -CONT {child.pid}" in culprit(ranks, 1)
    finally:
        child.kill()
        child.wait()


@pytest.mark.processes
def test_who_holds_the_others_up_is_flagged_first() -> None:
    """A stopped rank comes before those that wait for it, though they were late a moment earlier."""
    child = subprocess.Popen(["sleep", "60"])
    try:
        os.kill(child.pid, signal.SIGSTOP)
        wait_until(lambda: (stat := read_stat(child.pid)) and stat.state == "T", 5, "the child to stop")
        stopped = standing(1, 29.5)._replace(pid=child.pid)
        hangs, _ = HangWatch(30.0).look({0: standing(0, 31), 1: stopped, 2: standing(2, 29.5)})
        assert [hang.rank for hang in hangs] == [1, 0]
        saving = standing(1, 31, phase=RankPhase.SAVING, watched=False)
        hangs, _ = HangWatch(30.0).look({0: saving, 1: saving._replace(pid=child.pid)})
        assert [hang.rank for hang in hangs] == [1], "a process stopped in mid-save will never end it"
    finally:
        child.kill()
        child.wait()
