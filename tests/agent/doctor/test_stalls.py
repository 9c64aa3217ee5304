"""Ranks that make no progress for too long."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.waiting import wait_until
from torchdeck.agent.doctor import proc
from torchdeck.agent.doctor.stalls import (
    FIRST_LIMIT,
    LONG_PHASES,
    SILENT_LIMIT,
    SLOW_STEPS,
    Stall,
    StallWatch,
    Standing,
)
from torchdeck.contract.doctor.rank_heartbeat import RankHeartbeat
from torchdeck.contract.processes import read_stat
from torchdeck.contract.run_states import RankPhase

LIMIT = 30.0


class Watched:
    """One rank, looked at once per second."""

    def __init__(self, hang_after: float = LIMIT) -> None:
        self.watch = StallWatch(hang_after)
        self.now = 0.0
        self.reported = 0.0

    def pass_(self, seconds: float, standing: Standing, *, interval: float = 1.0) -> Stall:
        """Look as often as the agent does, while the rank reports nothing new."""
        stall = self.look(standing)
        for _ in range(round(seconds / interval)):
            self.now += interval
            stall = self.look(standing)
        return stall

    def look(self, standing: Standing, beat_at: float | None = None) -> Stall:
        """Look once; the heartbeat is of now, or of `beat_at`."""
        monotonic = 1.0 + (self.now if beat_at is None else beat_at)
        beat = standing.beat and standing.beat._replace(monotonic=monotonic)
        return self.watch.look({0: standing._replace(beat=beat)}, self.now)[0]


def standing(step: int = 5, *, phase: RankPhase = RankPhase.TRAINING, slow: float | None = 1.0) -> Standing:
    return Standing(0, phase, step, float(step), slow, watched=True, pid=None)


def silent(enqueued: int = 0, *, pid: int | None = None, **more: object) -> Standing:
    """A script's rank that reports nothing but its heartbeat."""
    beat = RankHeartbeat(1, 0.5, enqueued=enqueued, completed=enqueued, **more)  # type: ignore[arg-type] # its fields
    return Standing(0, RankPhase.STARTING, 0, 0.0, None, watched=False, pid=pid, beat=beat)


@given(st.floats(1, 1e4), st.one_of(st.none(), st.floats(0, 1e4)))
def test_the_limit_is_the_larger_of_two(hang_after: float, slow: float | None) -> None:
    """max(hang_after, 5 × the 99th percentile step)."""
    found = StallWatch(hang_after).look({0: standing(slow=slow)}, 0.0)[0]
    assert found.limit == max(hang_after, SLOW_STEPS * (slow or 0.0))


def test_a_silent_script_is_watched() -> None:
    """Its collectives are its progress; it is at no step, and prints count for nothing."""
    rank = Watched()
    assert not rank.pass_(LIMIT - 1, silent(7)).late
    assert not rank.pass_(LIMIT - 1, silent(8)).late
    assert rank.pass_(LIMIT + 2, silent(8)).late


def test_long_pauses_of_a_silent_script_are_its_rhythm() -> None:
    """After many of them: an evaluation of 20 s at every tenth collective raises the limit."""
    rank = Watched()
    for number in range(60):
        assert not rank.pass_(20 if number % 10 == 9 else 1, silent(number)).late
    assert not rank.pass_(60, silent(60)).late
    assert rank.pass_(5 * 21, silent(60)).late


def test_output_is_progress_of_a_program_without_collectives_only() -> None:
    """Its rank may wait for processes elsewhere; a rank with collectives may print in a loop for ever."""
    for collectives, late in ((0, False), (7, True)):
        rank = Watched()
        found = [rank.pass_(LIMIT / 2, silent(collectives)._replace(printed=size)).late for size in range(4)]
        assert found[-1] is late


def test_before_the_first_collective_a_start_has_time() -> None:
    rank = Watched(hang_after=3.0)
    assert not rank.pass_(FIRST_LIMIT - 1, silent()).late
    assert rank.pass_(2, silent()).late


def test_a_third_hang_is_seen_after_as_long_as_the_first() -> None:
    """Steps that hung are in the rank's own percentile; they do not raise the limit."""
    rank = Watched()
    rank.pass_(3, standing(1))
    hung = 0.0
    for step in range(2, 5):
        assert rank.pass_(LIMIT + 2, standing(step, slow=hung or 1.0)).late, step
        hung += 31.0


def test_a_slow_step_raises_the_limit_if_it_did_not_hang() -> None:
    rank = Watched()
    assert not rank.pass_(5, standing(1, slow=10.0)).late
    assert not rank.pass_(45, standing(2, slow=10.0)).late
    assert rank.pass_(10, standing(2, slow=10.0)).late


def test_a_pause_of_the_agent_counts_little() -> None:
    """Between two looks that are 3 s apart the ranks may have been held up, too."""
    rank = Watched(hang_after=2.5)
    rank.pass_(1, standing(1))
    rank.now += 3.0
    assert not rank.pass_(0, standing(1)).late


def test_a_rank_that_was_frozen_for_a_minute_begins_again() -> None:
    """Its heartbeat had a gap, though the agent ran on."""
    rank = Watched()
    rank.pass_(5, silent(7))
    for _ in range(25):
        rank.now += 1.0
        rank.look(silent(7), beat_at=5.0)
    assert rank.pass_(0, silent(7)).still < 31
    assert rank.pass_(20, silent(7)).still <= 21


@pytest.mark.parametrize("phase", [RankPhase.SAVING, RankPhase.COMPILING, RankPhase.LOADING])
def test_long_phases_take_longer(phase: RankPhase) -> None:
    """And those in which nothing more is to come are not watched."""
    beat = RankHeartbeat(1, 0.5, enqueued=7, completed=7)
    rank = Watched()
    saving = standing(phase=phase)._replace(beat=beat)
    assert not rank.pass_(LONG_PHASES * LIMIT - 1, saving).late
    assert rank.pass_(3, saving).late
    assert not Watched().pass_(500, standing(phase=RankPhase.DONE)._replace(beat=beat)).late


@pytest.mark.parametrize("activity", ["saving", "compiling"])
def test_long_activities_of_a_script_take_as_long(activity: str) -> None:
    rank = Watched()
    assert not rank.pass_(LONG_PHASES * LIMIT - 1, silent(7, activity=activity)).late
    assert rank.pass_(3, silent(7, activity=activity)).late


def test_without_a_heartbeat_only_known_rhythms_are_watched() -> None:
    """As long as the process is not known."""
    assert not Watched().pass_(500, standing()._replace(watched=False)).late
    assert Watched().pass_(LIMIT + 2, standing()).late


SPINNING = "while True: pass"
IDLE = "import time; time.sleep(1000)"


@pytest.fixture
def process(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen([sys.executable, "-c", request.param])
    yield child
    child.kill()
    child.wait()


def without_heartbeat(pid: int = 1, **more: object) -> Standing:
    """A rank that is not Python, or has `telemetry.inside = false`."""
    return Standing(0, RankPhase.RUNNING, 0, 0.0, None, watched=False, pid=pid)._replace(**more)  # type: ignore[arg-type] # its fields


def used(monkeypatch: pytest.MonkeyPatch) -> list[proc.Usage]:
    """What the rank's processes have used since they began: the last of the list."""
    uses = [proc.Usage(3.0, 3.0, 1 << 20, 1000)]
    monkeypatch.setattr(proc, "usage", lambda _: uses[-1])
    monkeypatch.setattr(proc, "state", lambda _: "S")
    return uses


@pytest.mark.parametrize("hang_after", [LIMIT, 400.0])
def test_a_program_without_heartbeat_that_uses_nothing_is_late(
    hang_after: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    used(monkeypatch)
    rank, limit = Watched(hang_after), max(hang_after, SILENT_LIMIT)
    assert not rank.pass_(limit - 1, without_heartbeat()).late
    found = rank.pass_(3, without_heartbeat())
    assert (found.late, found.working) == (True, False)
    assert limit < found.still < limit + 3
    assert not rank.pass_(9, without_heartbeat(phase=RankPhase.DONE)).late


@pytest.mark.parametrize("what", ["cpu", "bytes", "output", "child ended"])
def test_whatever_it_uses_is_progress(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a little, such as the messages of a server."""
    uses = used(monkeypatch)
    rank, alive = Watched(), without_heartbeat()
    for turn in range(1, 30):
        last = uses[-1]
        if what == "cpu":
            uses.append(last._replace(cpu=last.cpu + 0.002 * LIMIT, own=last.own + 0.002 * LIMIT))
        elif what == "bytes":
            uses.append(last._replace(bytes=last.bytes + 4096))
        elif what == "child ended":
            uses.append(last._replace(cpu=3.0 if turn % 2 else 9.0))
        else:
            alive = without_heartbeat(printed=turn)
        assert not rank.pass_(LIMIT, alive).late
    assert rank.pass_(SILENT_LIMIT + 6, alive).late


@pytest.mark.processes
def test_a_real_program_that_sleeps_is_late() -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        try:
            wait_until(lambda: proc.wait_channel(child.pid) == "hrtimer_nanosleep", 20, "it to sleep")
            rank = Watched()
            assert not rank.pass_(SILENT_LIMIT - 1, without_heartbeat(child.pid)).late
            assert rank.pass_(3, without_heartbeat(child.pid)).late
        finally:
            child.kill()


@pytest.mark.processes
@pytest.mark.parametrize("process", [SPINNING], indirect=True)
def test_a_real_program_that_computes_is_not_late(process: subprocess.Popen[bytes]) -> None:
    rank = Watched()
    for _ in range(3):
        assert not rank.pass_(SILENT_LIMIT - 10, without_heartbeat(process.pid)).late
        begun = proc.usage(process.pid).cpu
        wait_until(lambda since=begun: proc.usage(process.pid).cpu > since + 0.2, 30, "processor time")  # type: ignore[misc] # bound here


@pytest.mark.processes
@pytest.mark.parametrize("process", [SPINNING], indirect=True)
@pytest.mark.parametrize(
    ("places", "activity", "working"),
    [(1, "", False), (9, "", True), (1, "compiling", True), (0, "", True)],
)
def test_a_spinning_rank_is_not_at_work(
    process: subprocess.Popen[bytes], places: int, activity: str, working: bool
) -> None:
    """It uses the processor, as an evaluation does, but is always at the same line."""
    rank = Watched(hang_after=0.01)
    spinning = silent(7, pid=process.pid, places=places, activity=activity)
    wait_until(lambda: (now := read_stat(process.pid)) and now.cpu_ticks > 50, 30, "Python to be up")
    stat = read_stat(process.pid)
    assert stat is not None
    rank.pass_(1, spinning)
    used = stat.cpu_ticks + 200
    wait_until(lambda: (now := read_stat(process.pid)) and now.cpu_ticks > used, 30, "2 s of processor time")
    assert rank.pass_(1, spinning).working is working
    stuck = spinning._replace(age=9.0)
    unknown = activity == "compiling" or places == 0
    assert rank.look(stuck).working is unknown, "it holds Python's lock: nothing is known"


@pytest.mark.processes
@pytest.mark.parametrize("process", [IDLE], indirect=True)
def test_a_rank_that_made_progress_just_now_is_not_called_idle(process: subprocess.Popen[bytes]) -> None:
    """What it uses is measured only later: another rank may be late by then."""
    rank = Watched()
    assert rank.pass_(LIMIT / 3, silent(7, pid=process.pid, places=1)).working
    assert not rank.pass_(LIMIT / 3, silent(7, pid=process.pid, places=1)).working


PARENT = """
import subprocess, sys
subprocess.run([sys.executable, "-c", "while True: pass"])
"""


@pytest.mark.processes
@pytest.mark.parametrize("process", [PARENT], indirect=True)
def test_a_rank_whose_child_is_at_work_is_at_work(process: subprocess.Popen[bytes]) -> None:
    """Such as a compiler, or workers that load data."""
    rank = Watched(hang_after=0.01)
    waiting = silent(7, pid=process.pid, places=1)
    begun = proc.usage(process.pid)
    rank.pass_(1, waiting)
    try:
        wait_until(lambda: proc.usage(process.pid).cpu > begun.cpu + 2, 30, "2 s of processor time")
        assert rank.pass_(1, waiting).working
    finally:
        for child in proc.tree(process.pid)[1:]:
            os.kill(child, signal.SIGKILL)


FILLING = """
table = []
while len(table) < 100_000_000:
    table.append(str(len(table)))
"""


@pytest.mark.processes
@pytest.mark.parametrize("process", [FILLING], indirect=True)
def test_a_loop_that_fills_a_table_is_at_work(process: subprocess.Popen[bytes]) -> None:
    """It is always at the same two lines, as a loop that waits for a flag is."""
    rank = Watched(hang_after=0.01)
    filling = silent(7, pid=process.pid, places=2)
    rank.pass_(1, filling)
    begun = proc.usage(process.pid)
    wait_until(lambda: proc.usage(process.pid).memory > begun.memory + (16 << 20), 30, "16 MiB more memory")
    wait_until(lambda: proc.usage(process.pid).own > begun.own + 0.5, 30, "processor time")
    assert rank.pass_(1, filling).working
    process.kill()


@pytest.mark.processes
@pytest.mark.parametrize("process", [IDLE], indirect=True)
def test_a_process_that_is_stopped_in_a_save_is_late_at_once(process: subprocess.Popen[bytes]) -> None:
    """It will never end the save."""
    os.kill(process.pid, signal.SIGSTOP)
    wait_until(lambda: (stat := read_stat(process.pid)) and stat.state == "T", 5, "the child to stop")
    saving = standing(phase=RankPhase.SAVING)._replace(watched=False, pid=process.pid)
    assert Watched().pass_(LIMIT + 2, saving).late


def test_a_rank_is_flagged_before_its_groups_timeout_ends_it() -> None:
    """After 60 % of a timeout shorter than the limit; a program whose steps are as long is not."""
    rank = Watched(hang_after=60.0)
    assert not rank.pass_(11, silent(7, timeout=20.0)).late
    assert rank.pass_(2, silent(7, timeout=20.0)).late
    assert not Watched(hang_after=60.0).pass_(55, silent(7, timeout=1800.0)).late
    beat = RankHeartbeat(1, 0.5, enqueued=7, completed=7, timeout=20.0)
    assert not Watched(hang_after=60.0).pass_(18, standing(slow=10.0)._replace(beat=beat)).late
