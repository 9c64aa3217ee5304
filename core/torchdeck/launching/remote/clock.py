"""Offset of a node's clock from ours, measured by requests for its time; accurate to half of the round
trip.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

KEPT = 24
"""Number of stored answers: the best of the last two minutes, since clocks drift and are set."""


class ClockOffset(NamedTuple):
    """Offset of a node's clock from ours, in seconds."""

    offset: float
    """Seconds by which the node's clock is ahead."""
    error: float
    """Error margin of the offset."""


class ClockOffsets:
    """Measured offsets, the best of which counts.

    Round-trip times are measured by the monotonic clock: setting ours in between changes nothing.
    One thread adds, and any may read.

    Attributes:
        best: the one with the smallest error; None before the first answer.
    """

    def __init__(self) -> None:
        self.best: ClockOffset | None = None
        self._found: deque[ClockOffset] = deque(maxlen=KEPT)

    def add(self, asked: float, node_time: float, now: float, wall: float) -> None:
        """Add an answer.

        Args:
            asked: time of the request, on our monotonic clock.
            node_time: the node's answer, unix seconds.
            now: our monotonic clock now.
            wall: our unix time now.
        """
        took = max(0.0, now - asked)
        self._found.append(ClockOffset(node_time - (wall - took / 2), took / 2))
        self.best = min(self._found, key=lambda found: found.error)
