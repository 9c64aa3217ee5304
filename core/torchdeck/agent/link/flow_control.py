"""How much may be under way: as much as keeps a link busy, and no more than it carries in half a second.

Pipes, sshd and the kernel take megabytes at once. On a slow link all of that would lie before a line that
matters, so what is under way is counted until the other end says that it has it.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque

_AT_ONCE = 16
"""Buffers in one write."""


class Outgoing:
    """A queue before a descriptor, which is made non-blocking."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.pending = 0
        """Bytes that the descriptor has not taken yet."""
        self._queue: deque[memoryview] = deque()

    def put(self, data: bytes) -> None:
        self._queue.append(memoryview(data))
        self.pending += len(data)

    def flush(self) -> None:
        """Write what the descriptor takes now. Raises OSError if it has no reader any more."""
        with contextlib.suppress(BlockingIOError):
            while self._queue:
                buffers = [self._queue[at] for at in range(min(_AT_ONCE, len(self._queue)))]
                self._taken(os.writev(self.descriptor, buffers))

    def _taken(self, count: int) -> None:
        self.pending -= count
        while count:
            first = self._queue[0]
            if count < len(first):
                self._queue[0] = first[count:]
                return
            count -= len(first)
            self._queue.popleft()


FIRST = 64 * 1024
LEAST = 16 * 1024
MOST = 4 * 1024 * 1024
SHORT = 0.15
"""Seconds that bytes may wait on the way beyond the shortest time seen, for more to be allowed."""
LONG = 0.4
"""Seconds of waiting after which less is allowed."""


class Window:
    """Bytes that may be under way at once, found by how long they take.

    Attributes:
        size: bytes.
        sent: bytes in all.
        acknowledged: bytes of these that the other end has.
        round_trip: the shortest time seen in seconds; None before the first.
    """

    def __init__(self) -> None:
        self.size = FIRST
        self.sent = 0
        self.acknowledged = 0
        self.round_trip: float | None = None
        self._marks: deque[tuple[int, float]] = deque()
        self._full = False
        self._waited = 0.0
        self._changed_at = 0
        """Bytes sent when the size was judged last: only what was sent after that tells of it."""

    @property
    def room(self) -> int:
        """Bytes that may be sent now."""
        return max(0, self.size - (self.sent - self.acknowledged))

    @property
    def piece(self) -> int:
        """How long a piece should be, so that there are a few under way."""
        return min(256 * 1024, self.size // 4)

    def wants(self) -> None:
        """There was more to send than there was room for."""
        self._full = True

    def send(self, count: int, now: float) -> None:
        """`count` bytes are on their way."""
        self.sent += count
        self._marks.append((self.sent, now))

    def acknowledge(self, total: int, now: float) -> None:
        """The other end has `total` bytes in all.

        Raises:
            ValueError: so many were not sent.
        """
        if not self.acknowledged <= total <= self.sent:
            raise ValueError(f"{total} bytes are acknowledged, where {self.sent} were sent")
        self.acknowledged = total
        while self._marks and self._marks[0][0] <= total:
            mark, then = self._marks.popleft()
            self.round_trip = min(now - then, self.round_trip or now - then)
            if mark > self._changed_at:
                self._waited = max(self._waited, now - then - self.round_trip)
        self._adapt(total - self._changed_at)

    def _adapt(self, since: int) -> None:
        """Change the size by how long what was sent after the last change has waited, `since` bytes of it."""
        size = self.size
        if self._waited > LONG:
            size = max(LEAST, size // 2)
        elif since >= size and self._waited < SHORT and self._full:
            size = min(MOST, size * 2)
        elif since < size:
            return
        self.size, self._changed_at, self._full, self._waited = size, self.sent, False, 0.0
