"""How far a node's clock is from ours, by asking it for the time: as good as half of what the asking took."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

KEPT = 24
"""Answers that are remembered: the best of the last two minutes, since clocks drift and are set."""


class ClockOffset(NamedTuple):
    """A node's clock against ours, in seconds."""

    offset: float
    """What the node's clock is ahead."""
    error: float
    """By how much the offset may be wrong."""


class ClockOffsets:
    """Offsets as they were found, the best of which counts.

    The time that an answer took is of the monotonic clock: setting ours in between changes nothing.
    One thread adds, and any may read.

    Attributes:
        best: the one with the least error; None before the first answer.
    """

    def __init__(self) -> None:
        self.best: ClockOffset | None = None
        self._found: deque[ClockOffset] = deque(maxlen=KEPT)

    def add(self, asked: float, node_time: float, now: float, wall: float) -> None:
        """An answer came.

        Args:
            asked: when it was asked for, on our monotonic clock.
            node_time: the node's answer, unix seconds.
            now: our monotonic clock now.
            wall: our unix time now.
        """
        took = max(0.0, now - asked)
        self._found.append(ClockOffset(node_time - (wall - took / 2), took / 2))
        self.best = min(self._found, key=lambda found: found.error)
