"""How far other nodes' clocks are from this one's, by questions and answers. Pure."""

from __future__ import annotations

from typing import NamedTuple

KEPT = 16
"""Measurements that count; clocks drift."""
NEWS = 0.010
"""Seconds by which an offset must change beyond its error to be said again."""


class Offset(NamedTuple):
    """`theirs - ours` in seconds, and by how much that may be wrong."""

    seconds: float
    error: float


def measured(asked: float, answered: float, theirs: float) -> Offset:
    """The offset by one question: asked and answered on our clock, `theirs` read in between."""
    return Offset(theirs - (asked + answered) / 2.0, max(0.0, answered - asked) / 2.0)


class ClockWatch:
    """One other clock. The quickest of the last answers is the best: half its time is the error."""

    def __init__(self) -> None:
        self._measured: list[Offset] = []
        self._said: Offset | None = None

    @property
    def best(self) -> Offset | None:
        return min(self._measured, key=lambda offset: offset.error, default=None)

    def add(self, offset: Offset) -> Offset | None:
        """Take in a measurement; returns the best where that is news."""
        self._measured = [*self._measured[-KEPT + 1 :], offset]
        best, said = self.best, self._said
        if best is None:
            return None
        if said is not None and abs(best.seconds - said.seconds) < NEWS + best.error + said.error:
            return None
        self._said = best
        return best
