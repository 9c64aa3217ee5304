"""Relays bytes between pairs of connections, all of them in one thread."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections import deque
from typing import Protocol

_CHUNK = 1 << 16
_MOST_WAITING = 1 << 20
"""Maximum bytes waiting for one end; above it, nothing more is read for it."""


class Codec(Protocol):
    """Encoding of the bytes of one end."""

    def seal(self, content: bytes) -> bytes:
        """Return `content` as it is sent."""

    def open(self, received: bytes) -> bytes:
        """Return the content of received bytes."""


class Plain:
    """Passes bytes unchanged."""

    def seal(self, content: bytes) -> bytes:
        return content

    def open(self, received: bytes) -> bytes:
        return received


class End:
    """One connection of a pair."""

    def __init__(self, connection: socket.socket, codec: Codec | None = None) -> None:
        connection.settimeout(0)
        with contextlib.suppress(OSError):
            # requests and replies of a few bytes: neither should wait for more
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self.codec: Codec = codec or Plain()
        self.waiting = bytearray()
        self.ended = False
        """Nothing more comes from it."""


class Relay:
    """A thread that ends with the process."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._new: deque[tuple[End, End]] = deque()
        self._wake, self._woken = socket.socketpair()
        self._woken.settimeout(0)
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        threading.Thread(target=self._run, name="store relay", daemon=True).start()

    def add(self, one: End, other: End) -> None:
        """Relay between them until one of them ends; then close both."""
        self._new.append((one, other))
        self._wake.send(b"\0")

    def _run(self) -> None:
        while True:
            for key, events in self._selector.select():
                if key.data is None:
                    self._take_new()
                    continue
                end, other = key.data
                if end.connection.fileno() >= 0:  # not closed by an earlier entry of this list
                    self._serve(end, other, events)

    def _take_new(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(_CHUNK)
        while self._new:
            one, other = self._new.popleft()
            try:
                for end, peer in ((one, other), (other, one)):
                    self._selector.register(end.connection, selectors.EVENT_READ, (end, peer))
            except (OSError, ValueError):
                self._close(one, other)

    def _serve(self, end: End, other: End, events: int) -> None:
        try:
            if events & selectors.EVENT_READ:
                received = end.connection.recv(_CHUNK)
                end.ended = not received
                other.waiting += other.codec.seal(end.codec.open(received))
            for each in (end, other):
                _flush(each)
        except BlockingIOError:
            pass
        except Exception:  # noqa: BLE001 - a connection that broke, or was tampered with, ends its pair alone
            self._close(end, other)
            return
        if (end.ended and not other.waiting) or (other.ended and not end.waiting):
            self._close(end, other)
            return
        for each, peer in ((end, other), (other, end)):
            self._await(each, peer)

    def _await(self, end: End, other: End) -> None:
        reads = not end.ended and len(other.waiting) < _MOST_WAITING
        events = selectors.EVENT_READ * reads | selectors.EVENT_WRITE * bool(end.waiting)
        known = self._selector.get_map().get(end.connection)
        if known is None and events:
            self._selector.register(end.connection, events, (end, other))
        elif known is not None and not events:
            self._selector.unregister(end.connection)
        elif known is not None and known.events != events:
            self._selector.modify(end.connection, events, (end, other))

    def _close(self, *ends: End) -> None:
        for end in ends:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(end.connection)
            end.connection.close()


def _flush(end: End) -> None:
    with contextlib.suppress(BlockingIOError):
        while end.waiting:
            del end.waiting[: end.connection.send(end.waiting)]
