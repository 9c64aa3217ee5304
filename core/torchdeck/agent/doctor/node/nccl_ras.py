"""State of NCCL by its RAS service (2.24 and later), which runs in every process that uses NCCL.

Lines of text over TCP. NCCL's own documentation and source are the reference; older versions know no JSON.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Collection
from typing import Any, NamedTuple

from torchdeck.contract.network.peer_owner import owner_of_peer

ADDRESS = ("127.0.0.1", 28028)
"""NCCL's default. Jobs of one user share it (SO_REUSEPORT): the kernel picks the one that answers."""
LIMIT = 4.0
"""Seconds for the whole answer."""
_MOST_BYTES = 8 << 20
_LINE_LIMIT = 1024
_TRIES = 4
"""Connections, as long as another job answers."""
_LEGS = "1"
"""Seconds that NCCL waits for its other processes."""


class RasError(Exception):
    """NCCL gives no answer; the message says why."""


class RasState(NamedTuple):
    """Answer of NCCL."""

    text: str
    """As it came: JSON of newer versions, a report for a person of older ones."""
    missing: tuple[int, ...] = ()
    """Ranks of any of the job's communicators that do not respond."""
    mismatched: tuple[int, ...] = ()
    """Ranks that have launched another number of collectives than the rest of their communicator."""
    other: bool = False
    """It is another job's: none of its processes was asked for."""

    @property
    def sentence(self) -> str:
        """Return the ranks that stand out, for a person; empty if there are none."""
        parts = []
        if self.missing:
            parts.append(f"NCCL gets no answer from {_named(self.missing)}")
        if self.mismatched:
            parts.append(f"{_named(self.mismatched)} launched fewer collectives than others, by NCCL")
        return "; ".join(parts)


def _named(ranks: tuple[int, ...]) -> str:
    return f"rank{'' if len(ranks) == 1 else 's'} {', '.join(map(str, ranks))}"


def ask(pids: Collection[int], address: tuple[str, int] = ADDRESS, limit: float = LIMIT) -> RasState:
    """Ask NCCL about all processes of a job.

    Args:
        pids: the job's processes on this machine.
        address: of the service.
        limit: seconds for everything.

    Raises:
        RasError: no process of NCCL of this user answers there in time, or only another job's.
    """
    until = time.monotonic() + limit
    where = f"NCCL's RAS service at {address[0]}:{address[1]}"
    for _ in range(_TRIES):
        left = until - time.monotonic()
        if left <= 0:
            break
        try:
            with socket.create_connection(address, timeout=left) as connection:
                text = _conversation(connection, until)
        except OSError as error:
            raise RasError(f"{where}: {error}") from error
        state = read_state(text, pids)
        if not state.other:
            return state
    raise RasError(f"{where} answers for another job; a NCCL_RAS_ADDR per run keeps them apart")


def _conversation(connection: socket.socket, until: float) -> str:
    peer = _Peer(connection, until)
    peer.send("CLIENT PROTOCOL 2")
    if not peer.line().startswith(b"SERVER PROTOCOL"):
        raise RasError("this is not NCCL's RAS service")
    owner = owner_of_peer(connection)
    if owner != os.geteuid():
        whose = "of an unknown user" if owner is None else f"another user's ({owner})"
        raise RasError(f"the RAS service that answers is {whose}; its answer is not used")
    for order in (f"TIMEOUT {_LEGS}", "SET FORMAT json"):
        peer.send(order)
        peer.line()  # an older version answers ERROR, and sends text
    peer.send("VERBOSE STATUS")
    return peer.rest().decode("utf-8", "replace")


class _Peer:
    """The other end of a connection. All of it ends at `until`, however slowly bytes come."""

    def __init__(self, connection: socket.socket, until: float) -> None:
        self._connection, self._until = connection, until
        self._received = bytearray()
        """And not used yet."""

    def send(self, line: str) -> None:
        """Send a line. Raises OSError."""
        self._connection.settimeout(self._left())
        self._connection.sendall(f"{line}\n".encode())

    def line(self) -> bytes:
        """Return the next line with its end, or the first `_LINE_LIMIT` bytes of it. Raises OSError."""
        while b"\n" not in self._received and len(self._received) < _LINE_LIMIT and self._receive():
            pass
        end = self._received.find(b"\n", 0, _LINE_LIMIT) + 1 or _LINE_LIMIT
        line = bytes(self._received[:end])
        del self._received[:end]
        return line

    def rest(self) -> bytes:
        """Return what comes until the other end closes, or the first `_MOST_BYTES` of it. Raises OSError."""
        while len(self._received) < _MOST_BYTES and self._receive():
            pass
        return bytes(self._received)

    def _receive(self) -> bool:
        self._connection.settimeout(self._left())
        part = self._connection.recv(65536)
        self._received += part
        return bool(part)

    def _left(self) -> float:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        return left


def read_state(text: str, pids: Collection[int]) -> RasState:
    """Return the ranks that stand out in communicators that one of `pids` is in; none if the text is of an
    older version.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return RasState(text)
    communicators = value.get("communicators") if isinstance(value, dict) else None
    found = (
        [each for each in communicators if isinstance(each, dict)] if isinstance(communicators, list) else []
    )
    own = [each for each in found if not _pids(each).isdisjoint(pids)]
    missing: set[int] = set()
    mismatched: set[int] = set()
    for each in own:
        missing |= _ranks(each.get("missing_ranks"))
        mismatched |= _odd_counts(each.get("ranks"))
    return RasState(text, tuple(sorted(missing)), tuple(sorted(mismatched)), other=bool(found) and not own)


def _pids(communicator: dict[str, Any]) -> set[int]:
    lists = (communicator.get("ranks"), communicator.get("missing_ranks"))
    items = [item for value in lists if isinstance(value, list) for item in value if isinstance(item, dict)]
    return {item["pid"] for item in items if type(item.get("pid")) is int}


def _ranks(value: Any) -> set[int]:
    items = value if isinstance(value, list) else []
    return {item["rank"] for item in items if isinstance(item, dict) and type(item.get("rank")) is int}


def _odd_counts(value: Any) -> set[int]:
    """Return the ranks of a communicator that have launched fewer collectives of any kind than the most."""
    counts: dict[int, dict[str, int]] = {}
    for item in value if isinstance(value, list) else []:
        known = item.get("collective_counts") if isinstance(item, dict) else None
        if isinstance(known, dict) and type(item.get("rank")) is int:
            counts[item["rank"]] = {str(name): count for name, count in known.items() if type(count) is int}
    most: dict[str, int] = {}
    for known in counts.values():
        for name, count in known.items():
            most[name] = max(count, most.get(name, 0))
    return {
        rank for rank, known in counts.items() if any(known.get(name, 0) < top for name, top in most.items())
    }
