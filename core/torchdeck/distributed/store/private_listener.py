"""A listening socket on this machine that only this process can connect to.

Its packets are signed with a key that only this process has, and the kernel drops all others: other users of
the machine get no answer. A kernel that cannot sign drops all packets except those from ports that this
process holds.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
import threading
from collections import deque

from torchdeck.contract.network.private_socket import KEY_BYTES, pass_only, sign

ADDRESS = "127.0.0.2"
"""Differs from the front's address, which can therefore use the same port."""
_FROM = "127.0.0.1"
_RECENT = 64
"""Ports of connections that may still be being established; an established one has its own filter."""
_BACKLOG = 1024
_CONNECT_LIMIT = 10.0


class PrivateListener:
    """Listens on ADDRESS as soon as it is created.

    Raises:
        OSError: the port is in use.
    """

    def __init__(self, port: int) -> None:
        self._socket = socket.socket()
        self._key = secrets.token_bytes(KEY_BYTES)
        self._signs = sign(self._socket, self._key)
        self._recent: deque[int] = deque(maxlen=_RECENT)
        self._filters = True
        self._lock = threading.Lock()
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if not self._signs:
                self._filter_or_say()
            self._socket.bind((ADDRESS, port))
            self._socket.listen(_BACKLOG)
        except OSError:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]

    def descriptor(self) -> int:
        """Return another descriptor of the socket, which the accepting code closes."""
        return os.dup(self._socket.fileno())

    def connect(self) -> socket.socket:
        """Return a connection to it. Raises OSError."""
        connection = socket.socket()
        try:
            connection.settimeout(_CONNECT_LIMIT)
            connection.bind((_FROM, 0))
            with self._lock:
                if self._signs:
                    sign(connection, self._key)
                elif self._filters:
                    self._recent.append(connection.getsockname()[1])
                    self._filter()
                connection.connect((ADDRESS, self.port))
        except OSError:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        self._socket.close()

    def _filter_or_say(self) -> None:
        try:
            self._filter()
        except OSError as error:
            self._filters = False
            print(
                f"torchdeck: this kernel neither signs nor filters connections ({error.strerror}): "
                "other users of this machine can reach the store of this run",
                file=sys.stderr,
                flush=True,
            )

    def _filter(self) -> None:
        pass_only(self._socket, self._recent)
