"""The lead's end of all connections: a socket on the training address, and one channel a follower."""

from __future__ import annotations

import errno
import select
import socket
import sys
import time
from typing import Any

from torchdeck.agent.attempt_plan import family_of
from torchdeck.agent.lead.channel import LEAD, Channel, ChannelError

PENDING_LIMIT = 64
"""Connections that have not proved themselves; more are closed at once."""
BIND_LIMIT = 20.0
"""Seconds to wait for a port that an agent of this run listened on a moment ago."""
BIND_DELAY = 0.2


class ListenError(Exception):
    """The lead cannot listen on its address; the message says why."""


def listen(address: str, port: int) -> socket.socket:
    """Listen on `address`; on a free port if `port` is 0.

    Raises:
        ListenError: the address is not this machine's, or the port is somebody else's.
    """
    limit = time.monotonic() + BIND_LIMIT
    while isinstance(found := _bound(address, port), OSError):
        if found.errno != errno.EADDRINUSE or port == 0 or time.monotonic() > limit:
            raise ListenError(
                f"the leading node cannot listen on {address} port {port or '(any)'} for the agents of the "
                f"other nodes: {found.strerror or found}; give it an address of its own for training"
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
    """Accepts followers; the newest connection of a node counts."""

    def __init__(self, found: socket.socket, token: bytes, run_id: str, nodes: frozenset[str]) -> None:
        self._socket = found
        self._token, self._run_id, self._nodes = token, run_id, nodes
        self._pending: list[Channel] = []
        self.channels: dict[str, Channel] = {}

    @property
    def descriptors(self) -> list[tuple[int, int]]:
        """(descriptor, events to poll for)."""
        channels = (*self._pending, *self.channels.values())
        return [
            (self._socket.fileno(), select.POLLIN),
            *((channel.fileno(), channel.awaits) for channel in channels),
        ]

    def look(self) -> tuple[list[str], list[tuple[str, dict[str, Any]]]]:
        """(nodes that have just connected, what came from whom)."""
        self._accept()
        joined, came = self._greet()
        for node in list(self.channels):
            came += [(node, message) for message in self._receive(node)]
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
        for channel in (*self._pending, *self.channels.values()):
            channel.close()
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            if len(self._pending) >= PENDING_LIMIT:
                connection.close()
                continue
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._pending.append(Channel(connection, LEAD, self._token, self._run_id))

    def _greet(self) -> tuple[list[str], list[tuple[str, dict[str, Any]]]]:
        joined: list[str] = []
        came: list[tuple[str, dict[str, Any]]] = []
        waiting, self._pending = self._pending, []
        for channel in waiting:
            early = self._proved(channel)
            if early is None:
                continue
            self.drop(channel.node, "it connected anew")
            self.channels[channel.node] = channel
            joined.append(channel.node)
            came += [(channel.node, message) for message in early]
        return joined, came

    def _proved(self, channel: Channel) -> list[dict[str, Any]] | None:
        """What a node said with its proof; None while it has not proved itself, or is nobody."""
        try:
            early = channel.receive()
            channel.flush()
        except ChannelError as error:
            _turn_away(channel, str(error))
            return None
        if not channel.ready:
            self._pending.append(channel)
            return None
        if channel.node not in self._nodes:
            _turn_away(channel, f"{channel.node!r} is no other node of this run")
            return None
        return early


def _turn_away(channel: Channel, why: str) -> None:
    print(f"a connection was closed: {why}", file=sys.stderr, flush=True)
    channel.close()
