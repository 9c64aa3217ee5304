"""What a terminal says of a run's nodes while it watches: each trouble once, later again, and its end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torchdeck.runs.node_troubles import NodeTrouble

AGAIN = (60.0, 300.0, 900.0)
"""Ages in seconds at which a trouble is said again."""
EVERY = 3600.0
"""Seconds between two times after those."""


@dataclass(frozen=True)
class _Said:
    trouble: NodeTrouble
    due: float
    """When it is said again, unix seconds."""


class NodeNotes:
    """The notes of one watching."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], _Said] = {}

    def lines(self, troubles: Iterable[NodeTrouble], now: float) -> list[str]:
        """What is to be said now, given all that there is at this time (unix seconds)."""
        lines, here = [], {(each.node, each.what): each for each in troubles}
        for place, trouble in here.items():
            before = self._said.get(place)
            if before is None or before.trouble.state != trouble.state or now >= before.due:
                lines.append(trouble.text)
                self._said[place] = _Said(trouble, _due(trouble, now))
        over = [place for place in self._said if place not in here]
        return lines + [self._said.pop(place).trouble.over(now) for place in over]


def _due(trouble: NodeTrouble, now: float) -> float:
    begun = now if trouble.since is None else min(now, trouble.since)
    later = (begun + age for age in AGAIN if begun + age > now)
    return next(later, now + EVERY)
