"""torchrun's static rendezvous with a closed store: the same store, keys and waits, with access control."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

# torch.distributed exposes it under its own name, which its type stubs lack
from torch._C._distributed_c10d import TCPStore
from torch.distributed.elastic.rendezvous import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    static_tcp_rendezvous,
)
from torch.distributed.elastic.rendezvous.api import RendezvousConnectionError
from torch.distributed.elastic.rendezvous.static_tcp_rendezvous import StaticTCPRendezvous

from torchdeck.agent.store_order import StoreOrder
from torchdeck.distributed.store.listening import listening_on
from torchdeck.distributed.store.private_listener import PrivateListener
from torchdeck.distributed.store.proof import ClosedEarlyError, StrangerError, demand_proof, prove
from torchdeck.distributed.store.relay import End, Relay
from torchdeck.environment import STORE_VARIABLE

RECIPE_VARIABLE = "TORCHDECK_RECIPE"
_LATER_LIMIT = 30.0
"""Seconds to reach the first node again, which was reached before."""
_MOST_RANKS = 16
"""Usual maximum of ranks per node."""
_DESCRIPTORS = 3
"""Descriptors per rank connection: the front's two ends, and the store's."""
_OTHERS = 256
_CONNECT_LIMIT = 5.0
_LOOK = 0.02
"""Seconds between two looks whether the first node's store listens."""
_TRIES = 10
"""Number of ports to try until one is free on both loopback addresses."""


def close_stores(order: StoreOrder) -> None:
    """Make static rendezvous of this process open a closed store from now on."""
    create = static_tcp_rendezvous.create_rdzv_handler

    def created(params: RendezvousParameters) -> RendezvousHandler:
        opened_by_torch = create(params)
        if not isinstance(opened_by_torch, StaticTCPRendezvous):
            raise TypeError(f"this torch has another static rendezvous: {type(opened_by_torch).__name__}")
        return ClosedStaticRendezvous(opened_by_torch, order)

    static_tcp_rendezvous.create_rdzv_handler = created


class ClosedStaticRendezvous(StaticTCPRendezvous):
    """Only processes of the run can reach the store: on one node, and on several if their ranks are recipes'.

    A script's ranks connect by themselves, and torch does not authenticate. On several nodes its store
    therefore listens on the training address, and anyone who reaches it can join.
    """

    def __init__(self, opened_by_torch: StaticTCPRendezvous, order: StoreOrder) -> None:
        given = opened_by_torch
        seconds = int(given.timeout.total_seconds())
        super().__init__(
            given.master_addr, given.master_port, given.rank, given.world_size, given.run_id, seconds
        )
        self._order = order
        self._strangers = Strangers(order.strangers)

    def next_rendezvous(self) -> RendezvousInfo:
        if not self._store:
            self._store = self._opened()
        return super().next_rendezvous()

    def _opened(self) -> TCPStore:
        if self.world_size == 1 and self.master_addr == LOOPBACK:
            return self._alone()
        if not self._order.key or RECIPE_VARIABLE not in os.environ:
            return self._open_to_its_network()
        store = self._hosted(Relay(), 0) if self.rank == 0 else self._reached(Relay())
        os.environ[STORE_VARIABLE] = f"{LOOPBACK}:{store.port}"
        return store

    def _alone(self) -> TCPStore:
        """Open the store on one node; without /proc, which identifies connections' owners, it is open on
        loopback.
        """
        try:
            check_owners()
        except OSError as error:
            print(
                f"torchdeck: the store on {LOOPBACK}:{self.master_port} is open to other users of this "
                f"machine: {error}",
                file=sys.stderr,
                flush=True,
            )
            return self._open_to_its_network()
        return self._hosted(Relay(), self.master_port)

    def _hosted(self, relay: Relay, port: int) -> TCPStore:
        """Host the store in this process; on several nodes it is also reached at the rendezvous address."""
        _make_room(self.world_size)
        private, local = _listeners(port)

        def connect() -> End:
            return End(private.connect())

        Front(local, of_this_user, connect, relay, self._strangers)
        if self.world_size > 1:
            meeting_point = listening_on(self.master_addr, self.master_port)
            Front(meeting_point, with_key(self._order.key), connect, relay, self._strangers)
        return self._store_at(LOOPBACK, private.port, private.descriptor())

    def _reached(self, relay: Relay) -> TCPStore:
        """Connect to the store on another node, through a local port that forwards to it."""
        where = self.master_addr, self.master_port, self._order.key
        try:
            through(*where, self.timeout.total_seconds())().connection.close()
        except (OSError, StrangerError) as error:
            raise RendezvousConnectionError(
                f"the store at {self.master_addr}:{self.master_port} (first node) was not reached: {error}"
            ) from error
        local = listening_on(LOOPBACK, 0)
        Front(local, of_this_user, through(*where, _LATER_LIMIT), relay, self._strangers)
        return self._store_at(LOOPBACK, local.getsockname()[1], None)

    def _open_to_its_network(self) -> TCPStore:
        if self.rank != 0:
            _await_listener(self.master_addr, self.master_port, self.timeout.total_seconds())
        listener = listening_on(self.master_addr, self.master_port).detach() if self.rank == 0 else None
        return self._store_at(self.master_addr, self.master_port, listener)

    def _store_at(self, address: str, port: int, listener: int | None) -> TCPStore:
        return TCPStore(
            address,
            port,
            self.world_size,
            listener is not None,
            self.timeout,
            multi_tenant=True,
            master_listen_fd=listener,
        )


def _await_listener(address: str, port: int, limit: float) -> None:
    """Wait until the first node's store listens, `limit` seconds at most: torch reports what is wrong then.

    torch's own client, if it comes first, waits for 0.25 to 0.75 s before it tries again.
    """
    until = time.monotonic() + limit
    while time.monotonic() < until and not _listens(address, port):
        time.sleep(_LOOK)


def _listens(address: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address, port), _CONNECT_LIMIT):
        return True
    return False


def _make_room(nodes: int) -> None:
    """Raise this process's descriptor limit for connections of this many nodes; the usual limit is too
    low.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = nodes * _MOST_RANKS * _DESCRIPTORS + _OTHERS
    if hard != resource.RLIM_INFINITY:
        needed = min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _listeners(port: int) -> tuple[PrivateListener, socket.socket]:
    """Return the store's own listener, and the one that forwards to it: at the same port, as torch's store
    requires.
    """
    for left in reversed(range(1 if port else _TRIES)):
        private = PrivateListener(port)
        try:
            return private, listening_on(LOOPBACK, private.port)
        except OSError:
            private.close()
            if not left:
                raise
    raise AssertionError("unreachable")


# Lets processes of this run reach the store, and no others.

LOOPBACK = "127.0.0.1"
_MOST_UNPROVED = 512
"""Maximum unauthenticated connections."""
_MOST_FROM_ONE = 128
"""Maximum of these from one address: as many as a node has ranks."""
_PAUSE = 0.1
"""Seconds before an unreachable node is retried."""
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
    """Admit processes of this user on this machine."""
    owner = owner_of_peer(connection)
    if owner != os.geteuid():
        raise StrangerError(
            "whose process it is cannot be told" if owner is None else f"it is of another user ({owner})"
        )
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


# Owner of the process at the other end of a TCP connection within this machine, as reported by the kernel.

_MAPPED = f"{0:016X}{struct.unpack('=I', bytes([0, 0, 255, 255]))[0]:08X}"
_TABLES = {"/proc/net/tcp": "", "/proc/net/tcp6": _MAPPED}
"""Kernel table -> its prefix of an IPv4 address: IPv6 sockets reach these, too."""
_ESTABLISHED = "01"
_OWN_LIMIT = 10.0


def owner_of_peer(connection: socket.socket) -> int | None:
    """Return the user id of the process that `connection` was accepted from.

    None if unknown: the peer has already closed, is on another machine, or /proc is missing.

    Args:
        connection: an accepted IPv4 connection.
    """
    with contextlib.suppress(OSError):
        ends = connection.getpeername(), connection.getsockname()
        for table, prefix in _TABLES.items():
            owner = _owner(Path(table), [prefix + _hexadecimal(end) for end in ends])
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


def _hexadecimal(address: tuple[str, int]) -> str:
    """Return the address as the tables write it: as a number in this machine's byte order."""
    (number,) = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{number:08X}:{address[1]:04X}"
