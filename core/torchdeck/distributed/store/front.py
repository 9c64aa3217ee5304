"""Lets processes of this run reach the store, and no one else."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable

from torchdeck.distributed.store.connection_owner import owner_of_peer
from torchdeck.distributed.store.proof import ClosedEarlyError, StrangerError, demand_proof, prove
from torchdeck.distributed.store.relay import End, Relay
from torchdeck.distributed.store.strangers import Strangers

LOOPBACK = "127.0.0.1"
_MOST_UNPROVED = 512
"""Connections that have not proved who they are yet."""
_MOST_FROM_ONE = 128
"""Of these, from one address: as many as a node has ranks."""
_PAUSE = 0.1
"""Seconds before a node that is not reached is tried again."""
_CONNECT_LIMIT = 5.0

Admit = Callable[[socket.socket], End]
"""Makes sure of who is there. Raises StrangerError or OSError."""
Connect = Callable[[], End]
"""A new connection to the store. Raises StrangerError or OSError."""


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
                time.sleep(_PAUSE)  # no descriptor is left, or the connection is gone again
                continue
            host = str(address[0])
            with self._lock:
                full = self._unproved.total() >= _MOST_UNPROVED or self._unproved[host] >= _MOST_FROM_ONE
                self._unproved[host] += not full
            if full:
                connection.close()
                self._strangers.refused(host, "too many connections have not proved who they are")
                continue
            threading.Thread(target=self._establish, args=(connection, host), daemon=True).start()

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
            with self._lock:
                self._unproved[host] -= 1
                if not self._unproved[host]:
                    del self._unproved[host]
        try:
            self._relay.add(end, self._connect())
        except (OSError, StrangerError):
            connection.close()  # the process that connected reports it


def of_this_user(connection: socket.socket) -> End:
    """Admits processes of this user on this machine."""
    owner = owner_of_peer(connection)
    if owner != os.geteuid():
        raise StrangerError(
            "whose process it is cannot be told" if owner is None else f"it is of another user ({owner})"
        )
    return End(connection)


def with_key(key: bytes) -> Admit:
    """Admits those that hold `key`."""
    return lambda connection: End(connection, demand_proof(connection, key))


def through(address: str, port: int, key: bytes, limit: float) -> Connect:
    """Connects to the front of another node, which may still be about to start, for `limit` seconds."""

    def connect() -> End:
        until = time.monotonic() + limit
        while True:
            try:
                return _proved(address, port, key)
            except (OSError, ClosedEarlyError):
                # it is not up yet, or strangers keep it busy
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
