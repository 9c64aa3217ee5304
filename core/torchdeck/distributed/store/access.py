"""Lets processes of this run reach the store, and no others."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from torchdeck.contract.network.peer_owner import owner_of_peer
from torchdeck.distributed.store.proof import ClosedEarlyError, StrangerError, demand_proof, prove
from torchdeck.distributed.store.relay import End, Relay

LOOPBACK = "127.0.0.1"
_MOST_UNPROVED = 512
"""Maximum unauthenticated connections."""
_MOST_FROM_ONE = 128
"""Maximum of these from one address: as many as a node has ranks."""
_PAUSE = 0.1
"""Seconds before an unreachable node is retried, or a connection accepted after a limit was reached."""
_CONNECT_LIMIT = 5.0

Admit = Callable[[socket.socket], End]
"""Authenticates a connection. Raises StrangerError or OSError."""
Connect = Callable[[], End]
"""Returns a new connection to the store. Raises StrangerError or OSError."""


class Front:
    """Accepts on `listener` for as long as the process lives."""

    def __init__(
        self, listener: socket.socket, admit: Admit, connect: Connect, relay: Relay, strangers: Strangers
    ) -> None:
        self._listener = listener
        self._admit, self._connect = admit, connect
        self._relay, self._strangers = relay, strangers
        self._unproved: Counter[str] = Counter()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, name="store front", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, address = self._listener.accept()
            except OSError:
                time.sleep(_PAUSE)  # no descriptor left, or connection already gone
                continue
            host = str(address[0])
            with self._lock:
                full = self._unproved.total() >= _MOST_UNPROVED or self._unproved[host] >= _MOST_FROM_ONE
                self._unproved[host] += not full
            if full:
                connection.close()
                self._strangers.refused(host, "too many connections have not proved who they are")
                continue
            try:
                threading.Thread(
                    target=self._establish, args=(connection, host), name="store peer", daemon=True
                ).start()
            except RuntimeError as error:  # a limit of threads (`ulimit -u`, pids.max), which may pass
                connection.close()
                self._judged(host)
                self._strangers.refused(host, f"no thread could be started for it ({error})")
                time.sleep(_PAUSE)

    def _establish(self, connection: socket.socket, host: str) -> None:
        try:
            end = self._admit(connection)
        except StrangerError as error:
            connection.close()
            self._strangers.refused(host, str(error))
            return
        except OSError as error:
            connection.close()
            self._strangers.refused(host, f"it did not prove who it is ({error.strerror or error})")
            return
        finally:
            self._judged(host)
        try:
            self._relay.add(end, self._connect())
        except (OSError, StrangerError):
            connection.close()  # the process that connected reports it

    def _judged(self, host: str) -> None:
        """Count one unauthenticated connection less."""
        with self._lock:
            self._unproved[host] -= 1
            if not self._unproved[host]:
                del self._unproved[host]


def of_this_user(connection: socket.socket) -> End:
    """Admit processes of this user on this machine."""
    owner = owner_of_peer(connection)
    if owner != os.geteuid():
        raise StrangerError("its user is unknown" if owner is None else f"it is of another user ({owner})")
    return End(connection)


def with_key(key: bytes) -> Admit:
    """Return a check that admits peers with `key`."""
    return lambda connection: End(connection, demand_proof(connection, key))


def through(address: str, port: int, key: bytes, limit: float) -> Connect:
    """Return a function that connects to another node's front, which may still be starting, for `limit`
    seconds.
    """

    def connect() -> End:
        until = time.monotonic() + limit
        while True:
            try:
                return _proved(address, port, key)
            except (OSError, ClosedEarlyError):
                # it is not up yet, or unauthenticated peers keep it busy
                if time.monotonic() >= until:
                    raise
            time.sleep(_PAUSE)

    return connect


def _proved(address: str, port: int, key: bytes) -> End:
    connection = socket.create_connection((address, port), timeout=_CONNECT_LIMIT)
    try:
        return End(connection, prove(connection, key))
    except BaseException:
        connection.close()
        raise


_REPORTED = 5
"""Number of rejected peers with a log line each; after that only the 10th, 100th, …."""
_EVERY = 1.0
"""Seconds between two writes of the file."""


class Strangers:
    """Counts rejected peers.

    Args:
        path: file with their number, for the agent; None: there is none.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._written = 0.0
        self.count = 0

    def refused(self, address: str, why: str) -> None:
        """Record one more."""
        with self._lock:
            self.count += 1
            if self.count <= _REPORTED or self.count in (10**power for power in range(1, 10)):
                print(
                    f"torchdeck: a connection from {address} to the run's store was refused: {why} "
                    f"(number {self.count})",
                    file=sys.stderr,
                    flush=True,
                )
            now = time.monotonic()
            if self._path is not None and (self.count <= _REPORTED or now - self._written > _EVERY):
                self._written = now
                self._write(self._path, {"count": self.count, "address": address, "why": why})

    def _write(self, path: Path, value: dict[str, object]) -> None:
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        with contextlib.suppress(OSError):  # standard error has it, too
            unfinished.write_text(json.dumps(value) + "\n")
            unfinished.replace(path)
