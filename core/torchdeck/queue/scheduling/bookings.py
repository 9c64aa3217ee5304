"""Bookings of units over time: owner and end of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from torchdeck.queue.scheduling.ask import Ask, Places, Unit
from torchdeck.queue.scheduling.placement import Machines, place, slots, units_of

NEVER = math.inf
MayTake = Callable[[Unit, float], bool]
"""Whether a unit may be taken at a time."""


def anything(_unit: Unit, _time: float) -> bool:
    """Return that every unit may be taken."""
    return True


class Booking(NamedTuple):
    """A span of time in which a unit is taken; seconds on the caller's clock."""

    begin: float
    end: float
    """`NEVER` if unknown."""
    owner: str


class Start(NamedTuple):
    """A time at which a run can be placed, and where."""

    time: float
    places: Places


class Bookings:
    """Bookings of all units of some machines.

    Args:
        machines: machines by name.
    """

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._of: dict[Unit, list[Booking]] = {}

    def add(self, places: Places, booking: Booking) -> None:
        """Take units for the time of `booking`. A CPU run on a machine without a free slot takes none."""
        for unit in units_of(places, lambda node: self._free_slot(node, booking)):
            self._of.setdefault(unit, []).append(booking)

    def owners(self, units: Iterable[Unit], now: float) -> list[str]:
        """Return who has these units at `now`, each once."""
        bookings = (each for unit in units for each in self._of.get(unit, ()))
        return list(dict.fromkeys(each.owner for each in bookings if each.begin <= now < each.end))

    def is_free(self, unit: Unit, begin: float, end: float) -> bool:
        """Return whether no booking of a unit overlaps the time from `begin` to `end`."""
        return all(each.end <= begin or end <= each.begin for each in self._of.get(unit, ()))

    def placed(self, ask: Ask, begin: float, seconds: float, may_take: MayTake = anything) -> Places | None:
        """Return where a run can be placed for `seconds` from `begin` on; None: nowhere.

        Args:
            ask: what it needs.
            begin: time of its start.
            seconds: its length.
            may_take: whether it may take a unit at that time.
        """
        return place(
            ask,
            self._machines,
            lambda unit: may_take(unit, begin) and self.is_free(unit, begin, begin + seconds),
        )

    def earliest(self, ask: Ask, now: float, seconds: float, may_take: MayTake = anything) -> Start | None:
        """Return the first time at which a run can be placed; None if no known time is one."""
        ends = {each.end for bookings in self._of.values() for each in bookings if now < each.end < NEVER}
        for time in sorted({now, *ends}):
            places = self.placed(ask, time, seconds, may_take)
            if places is not None:
                return Start(time, places)
        return None

    def _free_slot(self, node: str, booking: Booking) -> Unit:
        machine = self._machines.get(node)
        known = [] if machine is None else slots(machine)
        free = (unit for unit in known if self.is_free(unit, booking.begin, booking.end))
        # more runs than slots, if the number was lowered meanwhile: a slot that no machine has
        return next(free, Unit(node, -1 - len(known)))
