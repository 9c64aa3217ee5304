"""torchrun's static rendezvous with a closed store: the same store, keys and waits, with access control."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import sys

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
from torchdeck.contract.network.peer_owner import check_owners
from torchdeck.contract.waiting import wait_for
from torchdeck.distributed.store.access import (
    LOOPBACK,
    Front,
    Strangers,
    of_this_user,
    through,
    with_key,
)
from torchdeck.distributed.store.listening_socket import listening_on
from torchdeck.distributed.store.private_listener import PrivateListener
from torchdeck.distributed.store.proof import StrangerError
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
    wait_for(lambda: _listens(address, port), limit, _LOOK)


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
