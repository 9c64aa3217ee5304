"""Whose process is at the other end of a TCP connection within this machine, as the kernel says."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
from pathlib import Path

_MAPPED = f"{0:016X}{struct.unpack('=I', bytes([0, 0, 255, 255]))[0]:08X}"
_TABLES = {"/proc/net/tcp": "", "/proc/net/tcp6": _MAPPED}
"""Table of the kernel's -> what stands in it before an address of IPv4: sockets of IPv6 reach these, too."""
_ESTABLISHED = "01"
_OWN_LIMIT = 10.0


def owner_of_peer(connection: socket.socket) -> int | None:
    """The user id of the process that `connection` was accepted from.

    None if it cannot be told: the peer has closed already, is on another machine, or /proc is not there.

    Args:
        connection: of IPv4, accepted.
    """
    with contextlib.suppress(OSError):
        ends = connection.getpeername(), connection.getsockname()
        for table, prefix in _TABLES.items():
            owner = _owner(Path(table), [prefix + _hexadecimal(end) for end in ends])
            if owner is not None:
                return owner
    return None


def check_owners() -> None:
    """Raises OSError if this kernel does not say whose connections are: one of our own is tried."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname(), timeout=_OWN_LIMIT),
    ):
        accepted, _ = listening.accept()
        with accepted:
            owner = owner_of_peer(accepted)
    if owner != os.geteuid():
        raise OSError(
            errno.ENOTSUP, "the kernel's table of connections does not show our own", "/proc/net/tcp"
        )


def _owner(table: Path, ends: list[str]) -> int | None:
    for line in table.read_text().splitlines()[1:]:
        fields = line.split()
        # without an inode the socket has no process any more, and the kernel names root as its owner
        if fields[1:4] == [*ends, _ESTABLISHED] and fields[9] != "0":
            return int(fields[7])
    return None


def _hexadecimal(address: tuple[str, int]) -> str:
    """As the tables write it: the address as a number in this machine's order of bytes."""
    (number,) = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{number:08X}:{address[1]:04X}"
