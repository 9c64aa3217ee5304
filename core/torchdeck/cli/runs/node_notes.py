"""Node messages of a terminal that watches a run: each problem once, repeated later, and its end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torchdeck.runs.node_troubles import NodeTrouble

AGAIN = (60.0, 300.0, 900.0)
"""Ages in seconds at which a problem is repeated."""
EVERY = 3600.0
"""Seconds between later repetitions."""


@dataclass(frozen=True)
class _Said:
    trouble: NodeTrouble
    due: float
    """Time of the next repetition, unix seconds."""


class NodeNotes:
    """Notes about nodes while a run is watched."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], _Said] = {}

    def lines(self, troubles: Iterable[NodeTrouble], now: float) -> list[str]:
        """Return the lines to print now for all current problems (`now` in unix seconds)."""
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
