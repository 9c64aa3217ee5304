"""Owner of the process at the other end of a TCP connection within this machine, as the kernel reports it."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any

_TABLES: dict[str, type[IPv4Address | IPv6Address]] = {
    "/proc/net/tcp": IPv4Address,
    "/proc/net/tcp6": IPv6Address,
}
"""Kernel table → the addresses in it (proc(5)). IPv4 connections reach IPv6 sockets, too, whose addresses
are then mapped ones.
"""
_MAPPED = bytes(10) + b"\xff\xff"
_ESTABLISHED = "01"
_OWN_LIMIT = 10.0


def owner_of_peer(connection: socket.socket) -> int | None:
    """Return the user id of the process that holds the other end of `connection`.

    None if unknown: that end is closed or not accepted yet, on another machine, or /proc is missing.

    Args:
        connection: a connected IPv4 or IPv6 socket.
    """
    with contextlib.suppress(OSError, ValueError):
        ends = connection.getpeername(), connection.getsockname()
        for table, kind in _TABLES.items():
            written = [_written(end, kind) for end in ends]
            owner = None if "" in written else _owner(Path(table), written)
            if owner is not None:
                return owner
    return None


def check_owners() -> None:
    """Raise OSError if this kernel does not report connections' owners: tries one of this process's own."""
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
        # a socket without an inode has no process any more, and the kernel reports root as its owner
        if fields[1:4] == [*ends, _ESTABLISHED] and fields[9] != "0":
            return int(fields[7])
    return None


def _written(end: tuple[Any, ...], kind: type[IPv4Address | IPv6Address]) -> str:
    """Return an address as a table writes it, its words as numbers in this machine's byte order; empty if the
    table has no such addresses.
    """
    address = ip_address(str(end[0]).partition("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if isinstance(address, kind):
        packed = address.packed
    elif kind is IPv6Address:
        packed = _MAPPED + address.packed
    else:
        return ""
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return f"{''.join(f'{word:08X}' for word in words)}:{end[1]:04X}"
