"""A TCP proxy that can be cut, so that neither side hears of it, and healed."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from types import TracebackType
from typing import Self

CHUNK = 1 << 16


class CutProxy:
    """Passes bytes between its own address and `target`, while it is whole.

    Cut, it takes connections and passes nothing, like a link that is down: no end is told to anybody.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._cut = False
        self._ended = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="cut proxy", daemon=True)

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listener.getsockname()
        return str(host), int(port)

    def cut(self) -> None:
        self._cut = True

    def heal(self) -> None:
        """Whole again; connections of before the cut are closed, as they have lost bytes."""
        for end in list(self._pairs):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._cut = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        self._thread.join(10)
        for end in [*self._pairs, self._listener]:
            end.close()
        self._selector.close()

    def _run(self) -> None:
        while not self._ended:
            for key, _ in self._selector.select(0.05):
                end = key.fileobj
                if end is self._listener:
                    self._accept()
                elif isinstance(end, socket.socket) and end in self._pairs:
                    self._pass(end)

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        try:
            far = socket.create_connection(self._target, timeout=5)
        except OSError:
            near.close()
            return
        for end, other in ((near, far), (far, near)):
            self._pairs[end] = other
            self._selector.register(end, selectors.EVENT_READ)

    def _pass(self, end: socket.socket) -> None:
        try:
            data = end.recv(CHUNK)
        except OSError:
            data = b""
        if data and self._cut:
            return  # lost on the way
        if not data:
            self._close(end)
            return
        with contextlib.suppress(OSError):
            self._pairs[end].sendall(data)

    def _close(self, end: socket.socket) -> None:
        for one in (end, self._pairs[end]):
            self._selector.unregister(one)
            del self._pairs[one]
            one.close()
