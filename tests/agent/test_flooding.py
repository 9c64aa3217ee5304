"""Ranks that print more than can be parsed: heartbeats, stops and ends are on time all the same."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from support.agents.agent_run import AgentRun, Maker
from support.waiting import wait_until
from torchdeck.agent.ranks import observation as printed_numbers
from torchdeck.agent.ranks import printed_series
from torchdeck.agent.ranks.observation import PrintedNumbers
from torchdeck.agent.ranks.printed_series import KEPT, PrintedSeries, written_position
from torchdeck.agent.ranks.rank_watch import ScriptProgress
from torchdeck.contract.rank_layout import RankLayout

FLOOD = """
import os, sys, time
rate, seconds = float(os.environ["FLOOD_RATE"]), float(os.environ["FLOOD_SECONDS"])
begun, step = time.monotonic(), 0
while time.monotonic() - begun < seconds:
    due = int((time.monotonic() - begun) * rate)
    if step >= due:
        time.sleep(0.005)
        continue
    until = min(due, step + 2000)
    rest = f"train loss {2.5 - step * 1e-9:.6f}, lr 3.0e-04, time 12.3ms, mfu: 5.1%"
    lines = [f"step {n}: {rest}" for n in range(step, until)]
    os.write(1, ("\\n".join(lines) + "\\n").encode())
    step = until
print(f"step {step}: loss 0.125")
"""
LINE = "step {}: train loss 2.500000, lr 3.0e-04, time 12.3ms, mfu: 5.1%\n"
LIMIT = 2.0
"""Seconds of the agent's processor time between two heartbeats, or until a stop is taken up."""
END_LIMIT = 4.0
"""The same from the last rank's end to the end of the run."""


class AgentTime:
    """Watches an agent from outside, while it is entered: its heartbeats, and the processor time it takes.

    How long something takes by the clock depends on what else the machine does; how much of the agent's own
    work comes first does not.
    """

    def __init__(self, run: AgentRun) -> None:
        self._run = run
        self._seen: list[tuple[float, float, object]] = []
        """(Unix time, processor time, heartbeat)."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> AgentTime:  # noqa: PYI034 - typing.Self is not in Python 3.10
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def beats(self) -> int:
        """How many different heartbeats there were."""
        return len({beat for _, _, beat in self._seen if beat is not None})

    @property
    def longest(self) -> float:
        """The most processor time without a new heartbeat."""
        found, last, began = 0.0, None, 0.0
        for _, used, beat in self._seen:
            if beat != last:
                last, began = beat, used
            elif beat is not None:
                found = max(found, used - began)
        return found

    def used(self, since: float, until: float) -> float:
        """Processor time between two moments of Unix time."""
        before = [used for when, used, _ in self._seen if when <= since]
        within = [used for when, used, _ in self._seen if when <= until]
        return within[-1] - before[-1]

    def _watch(self) -> None:
        ticks = os.sysconf("SC_CLK_TCK")
        stat = Path(f"/proc/{self._run.agents[-1].pid}/stat")
        while not self._over.wait(0.02):
            now = time.time()
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            self._seen.append((now, sum(map(int, fields[11:13])) / ticks, self._run.heartbeat().get("m")))


def flooded(make_run: Maker, *, nproc: int, rate: float, seconds: float) -> AgentRun:
    """A run whose ranks print `rate` lines a second each."""
    env = {"FLOOD_RATE": str(rate), "FLOOD_SECONDS": str(seconds)}
    return make_run(FLOOD, nproc=nproc, env=env).start()


def printed(run: AgentRun) -> int:
    """Bytes in the logs of all ranks."""
    logs = [run.layout.attempt(1).rank(rank).stdout for rank in range(run.plan.world_size)]
    return sum(log.stat().st_size for log in logs if log.exists())


def stop(run: AgentRun, watched: AgentTime) -> tuple[float, float]:
    """Ask for a stop; seconds until it was taken up, by the agent's processor time and by the clock."""
    begun = time.time()
    run.request("stop_now")
    taken = run.wait("signalled", 120).time
    wait_until(lambda: not run.alive(), 120, f"the run to end: {run.describe()[-2000:]}")
    return watched.used(begun, taken), taken - begun


def end(run: AgentRun, watched: AgentTime, seconds: float) -> tuple[float, float]:
    """Seconds from the last rank's end to the run's, by the agent's processor time and by the clock."""
    ended = run.wait("finished", seconds).time
    last = max(run.rank_file(rank, "exit").stat().st_mtime for rank in range(run.plan.world_size))
    return watched.used(last, ended), ended - last


def test_a_flood_delays_neither_heartbeats_nor_a_stop(make_run: Maker) -> None:
    """Four ranks print 240,000 lines a second."""
    run = flooded(make_run, nproc=4, rate=60_000, seconds=600)
    with AgentTime(run) as watched:
        run.wait("running")
        wait_until(lambda: printed(run) > 60 << 20 and watched.beats > 3, 120, "60 MiB and some heartbeats")
        taken, _ = stop(run, watched)
    assert taken < LIMIT
    assert watched.longest < LIMIT
    assert run.wait("finished").fields["state"] == "CANCELLED"


def test_a_run_is_finished_when_its_ranks_are(make_run: Maker) -> None:
    """Numbers that wait to be parsed do not hold it up; the last ones are there, and a gap is reported."""
    run = flooded(make_run, nproc=2, rate=150_000, seconds=4)
    with AgentTime(run) as watched:
        taken, _ = end(run, watched, 120)
    assert taken < END_LIMIT
    assert run.finished()["state"] == "SUCCEEDED"
    assert run.wait("numbers_left_out").fields["ranks"] == [0, 1]
    for rank in range(2):
        layout = run.layout.attempt(1).rank(rank)
        last = layout.stdout.read_text().splitlines()[-1]
        newest = ScriptProgress(layout.metrics).look()
        assert newest is not None
        assert last == f"step {newest.step}: loss 0.125"


@pytest.mark.soak
def test_stop_is_obeyed_within_two_seconds_at_160_000_lines_a_second(make_run: Maker) -> None:
    """Eight ranks for a minute. On a machine that does nothing else these are seconds by the clock, too."""
    run = flooded(make_run, nproc=8, rate=20_000, seconds=600)
    with AgentTime(run) as watched:
        run.wait("running")
        begun = time.monotonic()
        wait_until(lambda: time.monotonic() - begun > 60, 90, "a minute of printing")
        rate = printed(run) / (time.monotonic() - begun) / len(LINE.format(10**6))
        taken, by_the_clock = stop(run, watched)
    print(f"{rate:,.0f} lines/s; between heartbeats {watched.longest:.2f} s; stop {by_the_clock:.2f} s")
    assert taken < LIMIT
    assert watched.longest < LIMIT


@pytest.mark.soak
def test_a_minute_of_eight_ranks_is_finished_when_they_are(make_run: Maker) -> None:
    """As a run that ends by itself."""
    run = flooded(make_run, nproc=8, rate=20_000, seconds=60)
    with AgentTime(run) as watched:
        taken, by_the_clock = end(run, watched, 300)
    print(f"finished {by_the_clock:.2f} s after the last rank")
    assert taken < END_LIMIT


# by values


@pytest.fixture
def own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Budgets are of this thread's processor time, so that a busy machine changes nothing."""
    for module in (printed_numbers, printed_series):
        monkeypatch.setattr(module, "monotonic", time.thread_time)


def series_of(folder: Path, lines: int) -> PrintedSeries:
    """A log with so many lines, and what follows it."""
    rank = RankLayout(folder)
    folder.mkdir(parents=True)
    rank.stdout.write_text("".join(LINE.format(number) for number in range(lines)))
    return PrintedSeries(rank, ())


@pytest.mark.usefixtures("own_time")
def test_a_look_keeps_to_its_budget_and_a_burst_is_parsed_whole(tmp_path: Path) -> None:
    """A rank that prints little is parsed beside one that prints much."""
    much, little = series_of(tmp_path / "0", 20_000), series_of(tmp_path / "1", 10)
    numbers = PrintedNumbers({0: much, 1: little})
    begun = time.thread_time()
    assert numbers.look() == []
    assert time.thread_time() - begun < 4 * printed_numbers.LOOK_BUDGET
    assert written_position(tmp_path / "0/metrics")[1] != 19_999
    assert written_position(tmp_path / "1/metrics")[1] == 9
    for _ in range(100):
        assert numbers.look() == []
    assert not numbers.behind
    assert written_position(tmp_path / "0/metrics") == ((tmp_path / "0/stdout.log").stat().st_size, 19_999)


@pytest.mark.usefixtures("own_time")
def test_a_parser_that_stays_behind_goes_on_with_the_newest_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins with a whole line, and which ranks lose lines is said once."""
    monkeypatch.setattr(printed_numbers, "PATIENCE", 0.0)
    numbers = PrintedNumbers({3: series_of(tmp_path / "3", 40_000)})
    assert numbers.look() == [3]
    size = (tmp_path / "3/stdout.log").stat().st_size
    for _ in range(100):
        assert numbers.look() == []
    offset, step = written_position(tmp_path / "3/metrics")
    assert (offset, step) == (size, 39_999)
    rows = ScriptProgress(tmp_path / "3/metrics").look()
    assert rows is not None
    with (tmp_path / "3/stdout.log").open("a") as log:
        log.writelines(LINE.format(number) for number in range(40_000, 80_000))
    assert numbers.look() == []


@pytest.mark.usefixtures("own_time")
def test_the_last_lines_count_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is left out before them."""
    monkeypatch.setattr(printed_numbers, "END_BUDGET", 0.2)
    numbers = PrintedNumbers({rank: series_of(tmp_path / str(rank), 100_000) for rank in range(2)})
    assert numbers.end() == [0, 1]
    for rank in range(2):
        assert written_position(tmp_path / f"{rank}/metrics")[1] == 99_999


def test_blank_lines_hold_nothing_up(tmp_path: Path) -> None:
    """More of them than are read at a time."""
    rank = RankLayout(tmp_path)
    rank.stdout.write_bytes(b"\n" * (16 * KEPT) + b"step 7: loss 1.5\n")
    PrintedSeries(rank, ()).follow(float("inf"))
    assert written_position(rank.metrics) == (rank.stdout.stat().st_size, 7)
