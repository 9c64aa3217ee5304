"""On which addresses processes listen for TCP, as the kernel says."""

from __future__ import annotations

import contextlib
import ipaddress
import struct
from collections.abc import Iterable
from pathlib import Path

_LISTENS = "0A"


def listening(pids: Iterable[int]) -> set[tuple[str, int]]:
    """(address, port) of every TCP socket that one of `pids` listens with, each in its own network."""
    found = set()
    for pid in pids:
        inodes = _sockets(pid)
        for line in _lines(pid) if inodes else ():
            fields = line.split()
            if fields[3] == _LISTENS and fields[9] in inodes:
                address, _, port = fields[1].partition(":")
                found.add((_address(address), int(port, 16)))
    return found


def _lines(pid: int) -> list[str]:
    """Every TCP socket of the network that a process is in."""
    found: list[str] = []
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):  # it has ended
            found += Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
    return found


def _sockets(pid: int) -> list[str]:
    found = []
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                target = str(entry.readlink())
                if target.startswith("socket:["):
                    found.append(target[len("socket:[") : -1])
    return found


def _address(text: str) -> str:
    words = [text[at : at + 8] for at in range(0, len(text), 8)]
    return str(ipaddress.ip_address(b"".join(struct.pack("=I", int(word, 16)) for word in words)))
