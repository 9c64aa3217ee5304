"""A connection like a poor one: so many bytes a second, each after a delay, and megabytes of buffer."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque

from support.links.local_stream import LocalStream

PIECE = 2048


class SlowStream:
    """A `ByteStream` around another one: what is written is delayed, what is read is throttled, too."""

    def __init__(self, stream: LocalStream, rate: float, delay: float, buffer: int = 4 << 20) -> None:
        """Throttle `stream`.

        Args:
            stream: the node's process.
            rate: bytes a second that come from it.
            delay: seconds that every byte takes, each way.
            buffer: bytes that sshd, kernel and SSH window take before anybody notices that the link is slow.
        """
        self._stream = stream
        self._rate, self._delay = rate, delay
        self._buffer: queue.Queue[bytes] = queue.Queue(maxsize=max(1, buffer // PIECE))
        self._arrived: deque[tuple[float, bytes]] = deque()
        self._news = threading.Condition()
        self._out: queue.Queue[tuple[float, bytes]] = queue.Queue()
        self._closed = threading.Event()
        self.idle = 0.0
        """Seconds in which there was nothing to carry from it."""
        for work in (self._take, self._carry, self._give):
            threading.Thread(target=work, daemon=True).start()

    def write(self, data: bytes) -> None:
        if self._closed.is_set():
            raise BrokenPipeError("closed")
        self._out.put((time.monotonic() + self._delay, data))

    def read(self, size: int, limit: float) -> bytes:  # noqa: ARG002 - pieces are small
        deadline = time.monotonic() + limit
        with self._news:
            while True:
                now = time.monotonic()
                if self._closed.is_set():
                    return b""
                if self._arrived and self._arrived[0][0] <= now:
                    return self._arrived.popleft()[1]
                if now >= deadline:
                    raise TimeoutError(f"nothing came for {limit} s")
                due = self._arrived[0][0] if self._arrived else deadline
                self._news.wait(max(0.001, min(due, deadline) - now))

    @property
    def exit_code(self) -> int | None:
        return self._stream.exit_code

    @property
    def stderr(self) -> str:
        return self._stream.stderr

    def close(self) -> None:
        self._closed.set()
        with self._news:
            self._news.notify_all()
        self._stream.close()

    def _take(self) -> None:
        """Into the buffer, as fast as the node sends."""
        while not self._closed.is_set():
            try:
                data = self._stream.read(PIECE, 0.5)
            except TimeoutError:
                continue
            except OSError:
                return
            if not data:
                return
            self._buffer.put(data)

    def _carry(self) -> None:
        """Out of the buffer, as fast as the link carries."""
        free = time.monotonic()
        while not self._closed.is_set():
            begun = time.monotonic()
            try:
                data = self._buffer.get(timeout=0.5)
            except queue.Empty:
                continue
            finally:
                self.idle += time.monotonic() - begun
            free = max(free, time.monotonic()) + len(data) / self._rate
            time.sleep(max(0.0, free - time.monotonic()))
            with self._news:
                self._arrived.append((free + self._delay, data))
                self._news.notify_all()

    def _give(self) -> None:
        while not self._closed.is_set():
            try:
                due, data = self._out.get(timeout=0.5)
            except queue.Empty:
                continue
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                self._stream.write(data)
            except OSError:
                return
