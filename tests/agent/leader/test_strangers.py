"""Whatever strangers send to the leader's port closes their connection, and nodes of the run still get in."""

from __future__ import annotations

import errno
import os
import resource
import select
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.waiting import wait_until
from torchdeck.agent.leader.channel import FOLLOWER, LEADER, Channel, ChannelError
from torchdeck.agent.leader.listener import (
    ADDRESS_LIMIT,
    LOG_INTERVAL,
    LOG_LINES,
    Listener,
    Pending,
    Rejections,
    listen,
)

TOKEN = b"the token"
NODES = frozenset(("beta", "gamma"))


@dataclass
class Port:
    """A listening leader, and the sockets that a test connected to it."""

    listener: Listener
    address: tuple[str, int]
    sockets: list[socket.socket] = field(default_factory=list)

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        found = socket.create_connection(self.address, timeout=5, source_address=(source, 0))
        self.sockets.append(found)
        return found

    def join(self, node: str, between: int = 0) -> None:
        """A node of the run connects, and again if it is closed, while others do: `between` two looks."""
        channels: list[Channel] = []

        def has_joined() -> bool:
            for _ in range(between):
                self.connect()
            try:
                if not channels:
                    channels.append(Channel(self.connect(), FOLLOWER, TOKEN, "run", node))
                joined, _ = self.listener.look()
                channels[0].receive()
                channels[0].flush()
            except ChannelError:
                channels.clear()
                return False
            return node in joined

        wait_until(has_joined, 10, f"{node} to join")


@pytest.fixture
def port() -> Iterator[Port]:
    """On a free port of 127.0.0.1, as it is for a run of two more nodes."""
    found = listen("127.0.0.1", 0)
    made = Port(Listener(found, TOKEN, "run", NODES), found.getsockname())
    yield made
    made.listener.close()
    for each in made.sockets:
        each.close()


def closed(connection: socket.socket) -> bool:
    """The other end has hung up."""
    connection.settimeout(0)
    try:
        return connection.recv(1 << 16) == b""
    except BlockingIOError:
        return False
    except OSError as error:
        return error.errno == errno.ECONNRESET


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 1000,
        b'{"v":' * 200,
        b'{"v":1,"node":{"a":[]},"nonce":"0123456789abcdef"}',
        b'{"v":1,"node":"\\ud800","nonce":"0123456789abcdef"}\n{"proof":"\\ud800"}',
        b'{"v":' + b"9" * 900 + b"}",
        b"\xff\xfe\x00",
        b"null",
        b'{"v":1e999}',
    ],
)
def test_an_odd_line_is_answered_by_closing(port: Port, line: bytes) -> None:
    """And a node gets in afterwards."""
    stranger = port.connect()
    stranger.sendall(line + b"\n")

    def turned_away() -> bool:
        assert port.listener.look() == ([], [])
        return closed(stranger)

    wait_until(turned_away, 5, "the stranger to be turned away")
    port.join("beta")


def test_nodes_get_in_during_a_flood_from_their_own_address(port: Port) -> None:
    """Hundreds of silent connections, and more with each look: a few of them are kept."""
    for _ in range(6):
        for _ in range(50):
            port.connect()
        port.listener.look()
    open_ = [each for each in port.sockets if not closed(each)]
    assert len(open_) == ADDRESS_LIMIT + len(NODES)
    port.join("beta", between=2)
    port.join("gamma", between=2)
    assert set(port.listener.channels) == NODES


def test_one_address_takes_no_room_from_others() -> None:
    """Who has most loses one first; of IPv6 a network of 64 bits counts as one address."""
    pending = Pending(2)
    made = [socket.socketpair() for _ in range(200)]
    channels = [Channel(near, LEADER, TOKEN, "run") for near, _ in made]

    def victim(at: int, address: str) -> Channel | None:
        found = pending.add(channels[at], address)
        if found is not None:
            pending.remove(found)
        return found

    assert victim(0, "192.0.2.1") is None
    victims = [victim(at, f"2001:db8::{at:x}") for at in range(1, 150)]
    assert len(pending.channels) == 1 + ADDRESS_LIMIT + 2
    assert sum(each is None for each in victims) == ADDRESS_LIMIT + 2
    for at in range(150, 197):
        assert victim(at, f"198.51.100.{at}") is None
    assert victim(197, "203.0.113.1") in channels[1:150]
    assert channels[0] in pending.channels
    for (_, far), channel in zip(made, channels, strict=True):
        channel.close()
        far.close()


def test_without_descriptors_the_leader_neither_ends_nor_spins(port: Port) -> None:
    """It waits a moment, and takes connections again once there are descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    waiting = [port.connect() for _ in range(4)]
    highest = max(int(each.name) for each in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
    fillers = []
    try:
        while True:
            try:
                fillers.append(os.dup(0))
            except OSError:
                break
        assert port.listener.look() == ([], [])
        assert (port.listener._socket.fileno(), select.POLLIN) not in port.listener.descriptors
    finally:
        for each in fillers:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    waiting[0].sendall(b"x\n")

    def taken_again() -> bool:
        port.listener.look()
        return closed(waiting[0])

    wait_until(taken_again, 10, "connections to be taken again")
    port.join("beta")


def test_what_is_turned_away_is_logged_at_a_bounded_rate(capsys: pytest.CaptureFixture[str]) -> None:
    """A few lines, then a count with the addresses that it came from most."""
    rejections = Rejections()
    for number in range(10_000):
        rejections.note(f"192.0.2.{number % 200}", "a line is not JSON", 100.0 + number / 1000)
    assert len(capsys.readouterr().err.splitlines()) == LOG_LINES
    rejections.look(100.0 + LOG_INTERVAL)
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{10_000 - LOG_LINES} more connections were closed in 60 s" in line
    rejections.note("192.0.2.1", "a line is not JSON", 200.0)
    assert "192.0.2.1 was closed" in capsys.readouterr().err


def test_a_slow_stranger_has_a_deadline(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then does not hold a place."""
    monkeypatch.setattr("torchdeck.agent.leader.channel.HANDSHAKE_LIMIT", 0.3)
    stranger = port.connect()

    def turned_away() -> bool:
        if not closed(stranger):
            stranger.send(b" ")
        port.listener.look()
        return closed(stranger)

    wait_until(turned_away, 30, "a slow stranger to be turned away")
