"""Samples what the ranks of a node are like, once per second, from /proc and their heartbeats."""

from __future__ import annotations

import contextlib
import os
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from torchdeck.agent.doctor.rank_facts import PlaceShare, RankFacts
from torchdeck.agent.doctor.stalls import Standing
from torchdeck.contract.processes import PROC

SECONDS = 30.0
"""Time over which facts are taken."""
COSTLY_EVERY = 5.0
"""Seconds between two looks at all threads of a rank, some 10 µs per thread."""
MOST_THREADS = 512
MOST_PLACES = 6
_WAITING = "waiting"
_LOADING = "loading data"
_FREQUENCY = Path("/sys/devices/system/cpu")
_CGROUP = Path("/sys/fs/cgroup")
_TICKS = os.sysconf("SC_CLK_TCK")
_MAJOR_FAULTS, _PROCESSOR = 9, 36
"""Fields of /proc/PID/stat after the name, counted from 0."""


class _Counters(NamedTuple):
    """Counters of a process at `time`, in seconds of the agent's clock."""

    time: float
    waited: Mapping[str, int]
    """Thread → nanoseconds in which it could run and did not (sched-stats of the kernel)."""
    throttled: int | None
    """Microseconds."""
    faults: int
    steal: int
    """Ticks of all processors of the node."""


class RankSampler:
    """Facts of the last half minute on each rank of a node."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._looked = -COSTLY_EVERY
        self._counters: dict[int, deque[_Counters]] = {}
        self._frequencies: dict[int, deque[float]] = {}
        self._places: dict[int, deque[tuple[str, str]]] = {}

    def look(self, standings: Mapping[int, Standing], now: float) -> None:
        """Take one sample of each rank; `now` in seconds of the agent's clock."""
        costly = now - self._looked >= COSTLY_EVERY
        self._looked = now if costly else self._looked
        for rank, standing in standings.items():
            if standing.beat is not None and standing.beat.completed:  # it has begun to train
                places = self._places.setdefault(rank, deque(maxlen=round(SECONDS)))
                places.append((standing.beat.activity, standing.beat.place))
            if costly and standing.pid is not None:
                self._count(rank, standing.pid, now)
        for rank in set(self._places) - set(standings):
            self._places.pop(rank)
            self._counters.pop(rank, None)
            self._frequencies.pop(rank, None)

    def facts(self, rank: int, step: int | None) -> RankFacts:
        """Return what is known of a rank."""
        places = self._places.get(rank, deque())
        own = Counter(place for activity, place in places if place and activity not in (_WAITING, _LOADING))
        most = own.most_common(MOST_PLACES)
        loading = sum(activity == _LOADING for activity, _ in places)
        frequencies = self._frequencies.get(rank)
        known = RankFacts(
            rank,
            step,
            frequency=round(fmean(frequencies), 1) if frequencies else None,
            loading=round(loading / len(places), 3) if places else None,
            places=tuple(PlaceShare(place, round(count / len(places), 3)) for place, count in most),
        )
        counters = self._counters.get(rank, deque())
        return _with_rates(known, counters[0], counters[-1]) if len(counters) > 1 else known

    def _count(self, rank: int, pid: int, now: float) -> None:
        folder = self._proc / str(pid)
        words = _words(folder / "stat")
        if len(words) <= _PROCESSOR:
            return
        counters = self._counters.setdefault(rank, deque())
        steal = _steal(_text(self._proc / "stat"))
        found = _Counters(now, _waited(folder), _throttled(folder), int(words[_MAJOR_FAULTS]), steal)
        counters.append(found)
        while now - counters[0].time > SECONDS:
            counters.popleft()
        path = _FREQUENCY / f"cpu{words[_PROCESSOR]}/cpufreq/scaling_cur_freq"
        with contextlib.suppress(ValueError):
            frequencies = self._frequencies.setdefault(rank, deque(maxlen=round(SECONDS / COSTLY_EVERY)))
            frequencies.append(int(_text(path)) / 1000)


def _with_rates(known: RankFacts, first: _Counters, last: _Counters) -> RankFacts:
    seconds = max(0.1, last.time - first.time)
    waits = [last.waited[thread] - waited for thread, waited in first.waited.items() if thread in last.waited]
    throttled = None
    if first.throttled is not None and last.throttled is not None:
        throttled = _share((last.throttled - first.throttled) / 1e6 / seconds)
    processors = os.cpu_count() or 1
    return known._replace(
        stolen=_share(max(waits) / 1e9 / seconds) if waits else None,
        throttled=throttled,
        steal=_share((last.steal - first.steal) / _TICKS / processors / seconds),
        faults=round(max(0, last.faults - first.faults) / seconds, 2),
    )


def _share(value: float) -> float:
    return round(min(1.0, max(0.0, value)), 3)


def _waited(folder: Path) -> dict[str, int]:
    """Return thread → nanoseconds on the run queue; empty if the kernel does not count them."""
    found = {}
    with contextlib.suppress(OSError):
        for thread in sorted(os.listdir(folder / "task"))[:MOST_THREADS]:  # noqa: PTH208 - names only, each second
            words = _text(folder / "task" / thread / "schedstat").split()
            if len(words) == 3 and words[1].isdecimal():
                found[thread] = int(words[1])
    return found


def _throttled(folder: Path) -> int | None:
    """Return microseconds that the process's control group (v2) was stopped by its CPU limit."""
    path = _text(folder / "cgroup").strip().rpartition("::")[2]
    for line in _text(_CGROUP / path.lstrip("/") / "cpu.stat").splitlines():
        name, _, value = line.partition(" ")
        if name == "throttled_usec" and value.isdecimal():
            return int(value)
    return None


def _steal(stat: str) -> int:
    """Return ticks by the first line of /proc/stat, whose eighth number they are."""
    words: Sequence[str] = stat.partition("\n")[0].split()
    return int(words[8]) if len(words) > 8 and words[8].isdecimal() else 0


def _words(path: Path) -> list[str]:
    return _text(path).rpartition(") ")[2].split()


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
