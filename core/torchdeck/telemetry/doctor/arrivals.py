"""Arrival times of this process's rank at its collectives, reported every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from torchdeck.contract.doctor.arrivals import (
    MOST_CALLS,
    MOST_GROUPS,
    NAME_LIMIT,
    GroupArrivals,
    RankArrivals,
    write_arrivals,
)
from torchdeck.telemetry.doctor.flight_recorder import Call, newest_calls

PERIOD = 10.0
"""Seconds between two reports, if they are cheap."""
SHARE = 0.002
"""Most of the time that reports may take. A full flight recorder takes some 50 ms to read."""


class ArrivalReports:
    """Decides when to read the flight recorder, and writes what is new.

    All ranks read it at the same wall-clock times, the multiples of a period that doubles until a report is
    cheap enough. The program cannot run while its recorder is read: the ranks stop together, not one after
    the other.
    """

    def __init__(self, path: Path, period: float = PERIOD, share: float = SHARE) -> None:
        """Report into `path`, every `period` seconds at first, and in at most this share of the time."""
        self._share = share
        self._path = path
        self._period = period
        self._due = self._next(time.time())
        self._enqueued = 0
        self._latest = 0
        self.cost = 0.0
        """Seconds that the last reading took."""

    def wait(self, most: float) -> float:
        """Return the seconds to sleep, at most `most`, so that the next report is on time."""
        return min(most, max(0.0, self._due - time.time()))

    def report(self, enqueued: int, recorded: Callable[[], bytes]) -> None:
        """Write a report if it is due and there were collectives since the last.

        Args:
            enqueued: a number that changes with every collective.
            recorded: returns the flight recorder's JSON.

        Raises:
            OSError: the report could not be written.
        """
        now = time.time()
        if now < self._due:
            # a clock that was set back
            self._due = min(self._due, now + 2 * self._period)
            return
        if enqueued != self._enqueued:
            self._enqueued = enqueued
            begun = time.perf_counter()
            calls = newest_calls(recorded(), MOST_CALLS)
            self._write([call for call in calls if call.time > self._latest])
            self.cost = time.perf_counter() - begun
            self._period = affordable(self.cost, self._period, self._share)
        self._due = self._next(time.time())

    def _next(self, now: float) -> float:
        return (now // self._period + 1) * self._period

    def _write(self, calls: list[Call]) -> None:
        if not calls:
            return
        self._latest = max(call.time for call in calls)
        by_group: dict[str, list[Call]] = {}
        for call in calls:
            by_group.setdefault(call.group[:NAME_LIMIT], []).append(call)
        begin = min(call.time for call in calls)
        groups = [_group(name, found, begin) for name, found in by_group.items()]
        write_arrivals(self._path, RankArrivals(begin, tuple(groups[:MOST_GROUPS])))


def affordable(cost: float, period: float = PERIOD, share: float = SHARE) -> float:
    """Return the seconds between two reports of `cost` seconds each, at least `period`."""
    while cost > share * period:
        period *= 2
    return period


def _group(name: str, calls: list[Call], begin: int) -> GroupArrivals:
    spent = [call.spent for call in calls if call.spent is not None]
    return GroupArrivals(
        name,
        tuple(call.sequence for call in calls),
        tuple(call.time - begin for call in calls),
        tuple(call.kind for call in calls),
        tuple(spent) if len(spent) == len(calls) else (),
    )
