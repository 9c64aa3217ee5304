"""A listening socket on this machine that only this process can connect to.

The kernel drops every packet to it but those from ports that this process holds (a classic BPF program, see
socket(7), SO_ATTACH_FILTER): other users of the machine get no answer.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import threading
from collections import deque
from collections.abc import Collection

ADDRESS = "127.0.0.2"
"""Not the one of the front, which so can have the same port."""
_FROM = "127.0.0.1"
_SO_ATTACH_FILTER = 26
_LOAD_SOURCE_PORT, _IF_EQUAL, _RETURN = 0x28, 0x15, 0x06
_DROP, _PASS = 0, 0xFFFFFFFF
_RECENT = 64
"""Ports of connections that may still be in the making; what is established has a filter of its own."""
_BACKLOG = 1024
_CONNECT_LIMIT = 10.0


class PrivateListener:
    """Listens on ADDRESS as soon as it is made.

    Raises:
        OSError: the port is taken, or the kernel takes no filter.
    """

    def __init__(self, port: int) -> None:
        self._socket = socket.socket()
        self._recent: deque[int] = deque(maxlen=_RECENT)
        self._lock = threading.Lock()
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._filter()
            self._socket.bind((ADDRESS, port))
            self._socket.listen(_BACKLOG)
        except OSError:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]

    def descriptor(self) -> int:
        """Another descriptor of the socket, for whoever accepts its connections to close."""
        return os.dup(self._socket.fileno())

    def connect(self) -> socket.socket:
        """A connection to it. Raises OSError."""
        connection = socket.socket()
        try:
            connection.settimeout(_CONNECT_LIMIT)
            connection.bind((_FROM, 0))
            with self._lock:
                self._recent.append(connection.getsockname()[1])
                self._filter()
                connection.connect((ADDRESS, self.port))
        except OSError:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        self._socket.close()

    def _filter(self) -> None:
        program = _program(self._recent)
        code = ctypes.create_string_buffer(program)
        count = len(program) // 8
        self._socket.setsockopt(
            socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", count, ctypes.addressof(code))
        )


def _program(ports: Collection[int]) -> bytes:
    """Passes packets whose source port is one of `ports`; a packet begins with it (RFC 9293, 3.1)."""
    left = len(ports)
    instructions = [(_LOAD_SOURCE_PORT, 0, 0, 0)]
    for port in ports:
        instructions.append((_IF_EQUAL, left, 0, port))
        left -= 1
    instructions += [(_RETURN, 0, 0, _DROP), (_RETURN, 0, 0, _PASS)]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
