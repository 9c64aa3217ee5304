"""The leader's end of all connections: a socket on the training address, and one channel a follower."""

from __future__ import annotations

import errno
import secrets
import select
import socket
import sys
import time
from collections import Counter
from typing import Any

from torchdeck.agent.attempt.attempt_plan import family_of
from torchdeck.agent.leader.channel import LEADER, Channel, ChannelError

ACCEPT_LIMIT = 64
"""Connections accepted in one look: the agent has other things to do."""
ACCEPT_PAUSE = 0.5
"""Seconds in which none is accepted after descriptors or memory ran out."""
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
BIND_LIMIT = 20.0
"""Seconds to wait for a port that an agent of this run listened on a moment ago."""
BIND_DELAY = 0.2


class ListenError(Exception):
    """The leader cannot listen on its address; the message says why."""


def listen(address: str, port: int) -> socket.socket:
    """Listen on `address`; on a free port if `port` is 0.

    Raises:
        ListenError: the address is not this machine's, or another process has the port.
    """
    limit = time.monotonic() + BIND_LIMIT
    while isinstance(found := _bound(address, port), OSError):
        if found.errno != errno.EADDRINUSE or port == 0 or time.monotonic() > limit:
            raise ListenError(
                f"the leading node cannot listen on {address} port {port or '(any)'} for the agents of the "
                f"other nodes: {found.strerror or found}; give it its own training_address"
            )
        time.sleep(BIND_DELAY)
    return found


def _bound(address: str, port: int) -> socket.socket | OSError:
    found = socket.socket(family_of(address))
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((address, port))
        found.listen()
    except OSError as error:
        found.close()
        return error
    found.settimeout(0)
    return found


class Listener:
    """Accepts followers; the newest connection of a node counts. No stranger can end it or keep nodes out."""

    def __init__(self, found: socket.socket, token: bytes, run_id: str, nodes: frozenset[str]) -> None:
        self._socket = found
        self._token, self._run_id, self._nodes = token, run_id, nodes
        self._pending = Pending(len(nodes))
        self._rejections = Rejections()
        self._accept_at = 0.0
        self.channels: dict[str, Channel] = {}

    @property
    def descriptors(self) -> list[tuple[int, int]]:
        """(descriptor, events to poll for)."""
        channels = (*self._pending.channels, *self.channels.values())
        # while none can be accepted it would be readable all the time
        accepts = [(self._socket.fileno(), select.POLLIN)] if time.monotonic() >= self._accept_at else []
        return [*accepts, *((channel.fileno(), channel.awaits) for channel in channels)]

    def look(self) -> tuple[list[str], list[tuple[str, dict[str, Any]]]]:
        """(nodes that have just connected, what came from whom)."""
        now = time.monotonic()
        if now >= self._accept_at:
            self._accept(now)
        joined, came = self._greet(now)
        for node in list(self.channels):
            came += [(node, message) for message in self._receive(node)]
        self._rejections.look(now)
        return joined, came

    def _receive(self, node: str) -> list[dict[str, Any]]:
        channel = self.channels[node]
        try:
            channel.flush()
            return channel.receive()
        except ChannelError as error:
            self.drop(node, str(error))
            return []

    def send(self, node: str, message: dict[str, Any]) -> None:
        """Send to a node if it is connected; what is lost is asked for again on its next connection."""
        channel = self.channels.get(node)
        if channel is None:
            return
        try:
            channel.send(message)
        except ChannelError as error:
            self.drop(node, str(error))

    def drop(self, node: str, why: str) -> None:
        """Close the connection of a node."""
        channel = self.channels.pop(node, None)
        if channel is not None:
            print(f"node {node}: {why}", file=sys.stderr, flush=True)
            channel.close()

    def close(self) -> None:
        for channel in (*self._pending.channels, *self.channels.values()):
            channel.close()
        self._socket.close()

    def _accept(self, now: float) -> None:
        for _ in range(ACCEPT_LIMIT):
            try:
                connection, source = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._pause(error, now)
                    return
                continue  # a connection that broke before it was accepted
            self._admit(connection, str(source[0]), now)

    def _admit(self, connection: socket.socket, address: str, now: float) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            channel = Channel(connection, LEADER, self._token, self._run_id)
        except OSError:
            connection.close()
            return
        victim = self._pending.add(channel, address)
        if victim is not None:
            self._turn_away(victim, "too many connections are not authenticated yet", now)

    def _pause(self, error: OSError, now: float) -> None:
        """No descriptor or memory is left: a stranger's connection goes, and the next wait a moment."""
        self._accept_at = now + ACCEPT_PAUSE
        why = f"no connection can be accepted: {error.strerror or error}"
        victim = self._pending.drop_any()
        if victim is not None:
            self._turn_away(victim, why, now)
        else:
            self._rejections.note("any address", why, now)

    def _greet(self, now: float) -> tuple[list[str], list[tuple[str, dict[str, Any]]]]:
        joined: list[str] = []
        came: list[tuple[str, dict[str, Any]]] = []
        for channel in self._pending.channels:
            early = self._proved(channel, now)
            if early is None:
                continue
            self._pending.remove(channel)
            self.drop(channel.node, "it connected again")
            self.channels[channel.node] = channel
            joined.append(channel.node)
            came += [(channel.node, message) for message in early]
        return joined, came

    def _proved(self, channel: Channel, now: float) -> list[dict[str, Any]] | None:
        """Return a node's first messages after its proof; None if it has not proved itself, or is unknown."""
        try:
            early = channel.receive()
            channel.flush()
        except ChannelError as error:
            self._turn_away(channel, str(error), now)
            return None
        except Exception as error:  # noqa: BLE001 - whatever a stranger sends ends its connection, not the run
            self._turn_away(channel, f"it sent what cannot be read ({type(error).__name__})", now)
            return None
        if not channel.ready:
            return None
        if channel.node not in self._nodes:
            self._turn_away(channel, f"{channel.node[:60]!r} is no other node of this run", now)
            return None
        return early

    def _turn_away(self, channel: Channel, why: str, now: float) -> None:
        self._rejections.note(self._pending.address(channel), why, now)
        self._pending.remove(channel)
        channel.close()


# Connections to the leader that have not proved themselves: few, few per address, none for long.

PENDING_LIMIT = 64
"""Connections of strangers at a time, in addition to one per node."""
ADDRESS_LIMIT = 16
"""The same per address: several nodes may share one."""
LOG_LINES = 5
"""Rejections logged in one interval; the rest is a count."""
LOG_INTERVAL = 60.0


class Rejections:
    """Logs closed connections at a bounded rate: a flood must not fill the disk."""

    def __init__(self) -> None:
        self._since = 0.0
        self._lines = 0
        self._unlogged: Counter[str] = Counter()

    def note(self, address: str, why: str, now: float) -> None:
        """A connection from `address` was closed; `now` in monotonic seconds."""
        self.look(now)
        if self._lines == 0:
            self._since = now
        if self._lines < LOG_LINES:
            print(f"a connection from {address} was closed: {why}", file=sys.stderr, flush=True)
        else:
            # addresses are counted up to a limit: an attacker may have a whole network of them
            known = address in self._unlogged or len(self._unlogged) < PENDING_LIMIT
            self._unlogged[address if known else "others"] += 1
        self._lines += 1

    def look(self, now: float) -> None:
        """Log the count of an interval that is over."""
        if self._lines == 0 or now - self._since < LOG_INTERVAL:
            return
        if self._unlogged:
            often = ", ".join(f"{address} {count}" for address, count in self._unlogged.most_common(3))
            count, seconds = sum(self._unlogged.values()), now - self._since
            print(f"{count} more connections were closed in {seconds:.0f} s ({often})", file=sys.stderr)
        self._lines = 0
        self._unlogged.clear()


class Pending:
    """Channels of strangers. A new one is always let in: at the limit, another one of the same address goes.

    Which one is drawn by lot, so that no order of connections keeps a node of the run out.
    """

    def __init__(self, nodes: int) -> None:
        """Expect `nodes` followers, which may all come at once and from one address."""
        self._limit, self._address_limit = PENDING_LIMIT + nodes, ADDRESS_LIMIT + nodes
        self._channels: dict[Channel, str] = {}

    @property
    def channels(self) -> list[Channel]:
        return list(self._channels)

    def address(self, channel: Channel) -> str:
        """Where a channel comes from."""
        return self._channels[channel]

    def add(self, channel: Channel, address: str) -> Channel | None:
        """Let one in; returns the one that is to be closed for it."""
        group = group_of(address)
        counts = Counter(group_of(other) for other in self._channels.values())
        victim = None
        if counts[group] >= self._address_limit:
            victim = self._drawn(group)
        elif len(self._channels) >= self._limit:
            victim = self._drawn(counts.most_common(1)[0][0])
        self._channels[channel] = address
        return victim

    def drop_any(self) -> Channel | None:
        """One of the address with the most channels, when there is no room at all; None: there is none."""
        counts = Counter(group_of(other) for other in self._channels.values())
        return self._drawn(counts.most_common(1)[0][0]) if counts else None

    def remove(self, channel: Channel) -> None:
        del self._channels[channel]

    def _drawn(self, group: str) -> Channel:
        return secrets.choice([each for each, other in self._channels.items() if group_of(other) == group])


def group_of(address: str) -> str:
    """Return the group that counts as one address: a network of 64 bits for IPv6, since one machine may have
    many.
    """
    try:
        return socket.inet_pton(socket.AF_INET6, address.partition("%")[0])[:8].hex()
    except OSError:
        return address
