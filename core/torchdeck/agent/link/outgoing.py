"""Bytes on their way into a pipe that may take them slowly: writing never waits."""

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
        """Write what the descriptor takes now. Raises OSError when nobody reads it any more."""
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
