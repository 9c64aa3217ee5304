"""Decides which entries of the queue start now, and why and until when the others wait.

Entries are taken by priority, and in order of arrival within one. An entry that waits closes what it could
use to all behind it. An entry behind it may take such a unit only if it is known to be over early enough: all
starts that are certain for those ahead stay as early as they were. Certain are the ends of runs with a time
limit; estimates from earlier runs are shown, and decide nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from torchdeck.queue.scheduling import sentences
from torchdeck.queue.scheduling.ask import Ask, Machine, Places, Unit
from torchdeck.queue.scheduling.bookings import NEVER, Booking, Bookings, MayTake, anything
from torchdeck.queue.scheduling.placement import place, usable

MOST_PROMISES = 50
"""Waiting entries whose start is computed; nothing is backfilled on what later ones could use."""


class Before(StrEnum):
    """State of a run that another entry waits for."""

    PENDING = "pending"
    MET = "met"
    BROKEN = "broken"
    """It ended otherwise, or does not exist any more: the entry cannot start."""


class After(NamedTuple):
    """A run that an entry waits for."""

    sentence: str
    """Why the entry waits, or cannot start."""
    state: Before


@dataclass(frozen=True)
class Waiting:
    """One entry that waits. Times are in seconds."""

    id: str
    ask: Ask
    """Its nodes are names of machines."""
    priority: int = 0
    """Higher numbers come first."""
    position: int = 0
    """Order of arrival."""
    user: str = ""
    tags: tuple[str, ...] = ()
    after: tuple[After, ...] = ()
    held: str = ""
    """Why it must not start now, such as that it is paused; empty if it may."""
    limit: float | None = None
    """Longest time that it runs; None if there is no limit."""
    expected: float | None = None
    """Estimate of its length; None if nothing is known."""


@dataclass(frozen=True)
class Running:
    """A run that has devices. Times are in seconds on the caller's clock."""

    owner: str
    """As it is shown."""
    places: Places
    user: str = ""
    tags: tuple[str, ...] = ()
    ends: float | None = None
    """Time at which it is over at the latest; None if it has no limit."""
    expected: float | None = None
    """Estimate of that time; None if nothing is known."""
    counts: bool = True
    """Whether it counts for limits: it was started from the queue."""


@dataclass(frozen=True)
class Limits:
    """Most runs of the queue at once."""

    per_user: int | None = None
    per_tag: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))


class Wait(NamedTuple):
    """An entry that does not start now."""

    why: str
    """One sentence without its full stop."""
    estimate: float | None = None
    """Estimated time of its start, if runs take as long as earlier ones; None if nothing is known."""
    certain: float | None = None
    """Time at which it starts at the latest, by the time limits of runs; None if there is none."""


class _Counted(NamedTuple):
    """Something that counts for limits."""

    owner: str
    user: str
    tags: tuple[str, ...]


class Schedule(NamedTuple):
    """Result for all entries, by id, in their order."""

    starts: Mapping[str, Places]
    waits: Mapping[str, Wait]


def ordered(waiting: Sequence[Waiting]) -> list[Waiting]:
    """Return entries in the order in which they are considered."""
    return sorted(waiting, key=lambda entry: (-entry.priority, entry.position, entry.id))


def schedule(
    waiting: Sequence[Waiting],
    machines: Sequence[Machine],
    running: Sequence[Running],
    now: float,
    limits: Limits | None = None,
) -> Schedule:
    """Return which entries start now, and for each other one why it waits.

    Args:
        waiting: entries, in any order.
        machines: all machines.
        running: runs that have devices, also of others.
        now: the current time, in seconds.
        limits: most runs at once; None: no limit.
    """
    return _Scheduling(machines, running, now, limits or Limits()).schedule(waiting)


class _Scheduling:
    """State of one call of `schedule`."""

    def __init__(
        self, machines: Sequence[Machine], running: Sequence[Running], now: float, limits: Limits
    ) -> None:
        self._all = {machine.name: machine for machine in machines}
        self._up = {name: machine for name, machine in self._all.items() if not machine.away}
        self._now = now
        self._limits = limits
        self._taken = Bookings(self._up)
        """By runs that are there, and starts of this call."""
        self._certain = Bookings(self._up)
        """The same, and the certain starts of entries that wait."""
        self._hoped = Bookings(self._up)
        """As `_certain`, by estimates."""
        self._counted = [_Counted(run.owner, run.user, run.tags) for run in running if run.counts]
        """Runs and entries that count for limits: also those that wait for devices, or others would pass them
        and use up their limit.
        """
        for run in running:
            # one that runs longer than its limit or estimate ends some time from now on
            self._taken.add(run.places, self._until(None, run.owner))
            self._certain.add(run.places, self._until(run.ends, run.owner))
            self._hoped.add(run.places, self._until(run.expected, run.owner))
        self._closed: dict[Unit, str] = {}
        """Unit → the first entry ahead that waits and could use it."""
        self._closed_until: dict[Unit, float] = {}
        """Unit → the certain start of the last one of them; `NEVER` if one has none."""
        self._promises = 0

    def schedule(self, waiting: Sequence[Waiting]) -> Schedule:
        starts: dict[str, Places] = {}
        waits: dict[str, Wait] = {}
        for entry in ordered(waiting):
            why = self._held(entry) or self._misfit(entry.ask)
            if why:
                waits[entry.id] = Wait(why)
                continue
            places = self._place(entry)
            self._counted.append(_Counted(entry.id, entry.user, entry.tags))
            if places is None:
                waits[entry.id] = self._wait(entry)
            else:
                starts[entry.id] = places
                self._book(self._taken, places, entry, self._now, None)
                self._book(self._certain, places, entry, self._now, entry.limit)
                self._book(self._hoped, places, entry, self._now, entry.expected)
        return Schedule(starts, waits)

    def _until(self, end: float | None, owner: str) -> Booking:
        return Booking(self._now, NEVER if end is None or end <= self._now else end, owner)

    @staticmethod
    def _book(book: Bookings, places: Places, entry: Waiting, begin: float, seconds: float | None) -> None:
        book.add(places, Booking(begin, NEVER if seconds is None else begin + seconds, entry.id))

    def _held(self, entry: Waiting) -> str:
        """Return why an entry may not start, whatever is free; empty if it may."""
        if entry.held:
            return entry.held
        for state in (Before.BROKEN, Before.PENDING):
            for after in entry.after:
                if after.state is state:
                    return after.sentence
        return next(chain(self._over_limits(entry)), "")

    def _over_limits(self, entry: Waiting) -> Iterator[str]:
        most = self._limits.per_user
        owners = [each.owner for each in self._counted if each.user == entry.user]
        if most is not None and len(owners) >= most:
            yield sentences.limit(f"user {entry.user}", owners, most)
        for tag in entry.tags:
            owners = [each.owner for each in self._counted if tag in each.tags]
            if tag in self._limits.per_tag and len(owners) >= self._limits.per_tag[tag]:
                yield sentences.limit(f"tag {tag}", owners, self._limits.per_tag[tag])

    def _misfit(self, ask: Ask) -> str:
        """Return why a run would not fit if everything were free; empty if it would."""
        if place(ask, self._up, lambda _unit: True) is not None:
            return ""
        away = [
            machine for name in ask.nodes if (machine := self._all.get(name)) is not None and machine.away
        ]
        if away and place(ask, self._all, lambda _unit: True) is not None:
            return sentences.away(away)
        return sentences.misfit(ask, [self._all[name] for name in ask.nodes if name in self._all])

    def _place(self, entry: Waiting) -> Places | None:
        seconds = NEVER if entry.limit is None else entry.limit
        return self._certain.placed(entry.ask, self._now, seconds, self._may_take(entry))

    def _may_take(self, entry: Waiting) -> MayTake:
        """Return which units those ahead leave to an entry, and when; their bookings count besides."""
        if entry.limit is None:
            return lambda unit, time: self._closed_until.get(unit, time) <= time
        return lambda unit, _time: self._closed_until.get(unit, 0.0) < NEVER

    def _wait(self, entry: Waiting) -> Wait:
        """Close what the entry could use to those behind it; return why and until when it waits."""
        units = list(usable(entry.ask, self._up))
        why = self._why(entry, units)
        self._promises += 1
        certain = estimate = None
        if self._promises <= MOST_PROMISES:
            certain = self._promised(self._certain, entry, entry.limit, self._may_take(entry))
            estimate = self._promised(self._hoped, entry, entry.expected, anything)
        until = NEVER if certain is None else certain
        for unit in units:
            self._closed.setdefault(unit, entry.id)
            self._closed_until[unit] = max(until, self._closed_until.get(unit, until))
        return Wait(why, estimate, certain)

    def _promised(
        self, book: Bookings, entry: Waiting, seconds: float | None, may_take: MayTake
    ) -> float | None:
        """Book the earliest start of an entry, and return its time; None if it is not known."""
        start = book.earliest(entry.ask, self._now, NEVER if seconds is None else seconds, may_take)
        if start is None:
            return None
        self._book(book, start.places, entry, start.time, seconds)
        return start.time

    def _why(self, entry: Waiting, units: Sequence[Unit]) -> str:
        if self._taken.placed(entry.ask, self._now, NEVER) is None:
            return sentences.busy(entry.ask, units, self._taken.owners(units, self._now))
        ahead = dict.fromkeys(self._closed[unit] for unit in units if unit in self._closed)
        return sentences.behind(entry.ask, units, list(ahead))
