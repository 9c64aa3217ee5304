"""A listening socket on this machine that only this process can connect to.

Its packets are signed with a key that only this process has (RFC 2385, TCP_MD5SIG), and the kernel drops all
others: other users of the machine get no answer. A kernel that cannot sign drops all packets except those
from ports that this process holds (a classic BPF program, see socket(7), SO_ATTACH_FILTER). Some kernels
allow that to root only.
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import socket
import struct
import sys
import threading
from collections import deque
from collections.abc import Collection

ADDRESS = "127.0.0.2"
"""Differs from the front's address, which can therefore use the same port."""
_FROM = "127.0.0.1"
_TCP_MD5SIG_EXT, _FOR_A_PREFIX = 32, 1
_LONGEST_KEY = 80
_SO_ATTACH_FILTER = 26
_LOAD_SOURCE_PORT, _IF_EQUAL, _RETURN = 0x28, 0x15, 0x06
_DROP, _PASS = 0, 0xFFFFFFFF
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
        self._key = secrets.token_bytes(_LONGEST_KEY // 2)
        self._signs = _sign(self._socket, self._key)
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
                    _sign(connection, self._key)
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
        program = _program(self._recent)
        code = ctypes.create_string_buffer(program)
        count = len(program) // 8
        self._socket.setsockopt(
            socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", count, ctypes.addressof(code))
        )


def _sign(connection: socket.socket, key: bytes) -> bool:
    """Sign all packets of an IPv4 socket, and accept no others; return False if the kernel cannot."""
    any_address = struct.pack("=HHI", socket.AF_INET, 0, 0).ljust(128, b"\0")
    order = struct.pack("=BBHi", _FOR_A_PREFIX, 0, len(key), 0) + key.ljust(_LONGEST_KEY, b"\0")
    try:
        connection.setsockopt(socket.IPPROTO_TCP, _TCP_MD5SIG_EXT, any_address + order)
    except OSError:
        return False
    return True


def _program(ports: Collection[int]) -> bytes:
    """Return a program that passes packets whose source port is in `ports`; a packet begins with it (RFC
    9293, 3.1).
    """
    left = len(ports)
    instructions = [(_LOAD_SOURCE_PORT, 0, 0, 0)]
    for port in ports:
        instructions.append((_IF_EQUAL, left, 0, port))
        left -= 1
    instructions += [(_RETURN, 0, 0, _DROP), (_RETURN, 0, 0, _PASS)]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)


def listening_on(address: str, port: int) -> socket.socket:
    """Return a socket that listens on `address`; on every address if no interface of this machine has it.

    Raises:
        OSError: the port is in use, or there is no such address.
    """
    family, _, _, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(place)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
            # other machines reach this one at an address that is translated on the way (NAT)
            listener.bind(("", port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
