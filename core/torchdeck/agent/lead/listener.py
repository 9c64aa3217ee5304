"""The lead's end of all connections: a socket on the training address, and one channel a follower."""

from __future__ import annotations

import errno
import select
import socket
import sys
import time
from typing import Any

from torchdeck.agent.attempt.attempt_plan import family_of
from torchdeck.agent.lead.channel import LEAD, Channel, ChannelError
from torchdeck.agent.lead.pending import Pending, Rejections

ACCEPT_LIMIT = 64
"""Connections accepted in one look: the agent has other things to do."""
ACCEPT_PAUSE = 0.5
"""Seconds in which none is accepted after descriptors or memory ran out."""
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
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
            channel = Channel(connection, LEAD, self._token, self._run_id)
        except OSError:
            connection.close()
            return
        victim = self._pending.add(channel, address)
        if victim is not None:
            self._turn_away(victim, "too many connections have not said who they are", now)

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
            self.drop(channel.node, "it connected anew")
            self.channels[channel.node] = channel
            joined.append(channel.node)
            came += [(channel.node, message) for message in early]
        return joined, came

    def _proved(self, channel: Channel, now: float) -> list[dict[str, Any]] | None:
        """What a node said with its proof; None while it has not proved itself, or is nobody."""
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
