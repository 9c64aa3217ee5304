"""A connection proves its token on both ends, and any line that is not what was sent closes it."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.agent.leader.channel import FOLLOWER, GREETING_LIMIT, LEADER, LINE_LIMIT, Channel, ChannelError

TOKEN = b"the token"


class Pair:
    """Both ends, and the raw sockets between which a man in the middle stands."""

    def __init__(self, leader_token: bytes = TOKEN, follower_token: bytes = TOKEN, run: str = "run") -> None:
        near, self.to_leader = socket.socketpair()
        far, self.to_follower = socket.socketpair()
        for end in (self.to_leader, self.to_follower):
            end.settimeout(0)
        self.leader = Channel(near, LEADER, leader_token, "run")
        self.follower = Channel(far, FOLLOWER, follower_token, run, "beta")

    def close(self) -> None:
        for end in (self.leader, self.follower, self.to_leader, self.to_follower):
            end.close()

    def carry(self) -> tuple[bytes, bytes]:
        """(from the follower, from the leader): what is under way."""
        return _taken(self.to_follower), _taken(self.to_leader)

    def shake(self) -> None:
        """All of the handshake, faithfully."""
        for _ in range(3):
            up, down = self.carry()
            self.to_leader.sendall(up)
            self.to_follower.sendall(down)
            assert self.leader.receive() == []
            assert self.follower.receive() == []


def _taken(end: socket.socket) -> bytes:
    try:
        return end.recv(1 << 22)
    except BlockingIOError:
        return b""


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Both ends after the handshake."""
    made = Pair()
    made.shake()
    yield made
    made.close()


def test_both_prove_themselves_and_talk(pair: Pair) -> None:
    """The leader learns which node it is; messages go both ways, in order."""
    assert pair.leader.ready
    assert pair.follower.ready
    assert pair.leader.node == "beta"
    pair.follower.send({"up": 1})
    pair.follower.send({"up": 2})
    pair.leader.send({"down": "ü"})
    up, down = pair.carry()
    pair.to_leader.sendall(up)
    pair.to_follower.sendall(down)
    assert pair.leader.receive() == [{"up": 1}, {"up": 2}]
    assert pair.follower.receive() == [{"down": "ü"}]


@pytest.mark.parametrize(
    ("leader", "follower", "run"), [(TOKEN, b"other", "run"), (TOKEN, TOKEN, "another run")]
)
def test_another_token_or_run_is_turned_away(leader: bytes, follower: bytes, run: str) -> None:
    """By the follower first, as the leader proves itself first; neither ever sends the token."""
    pair = Pair(leader, follower, run)
    up, _ = pair.carry()
    pair.to_leader.sendall(up)
    pair.leader.receive()
    _, down = pair.carry()
    pair.to_follower.sendall(down)
    with pytest.raises(ChannelError, match="does not hold the token"):
        pair.follower.receive()
    assert not any(token in up + down for token in (TOKEN, b"other"))
    pair.close()


def test_a_stranger_without_the_token_is_turned_away_by_the_lead() -> None:
    """It may answer what it likes."""
    pair = Pair()
    up, _ = pair.carry()
    pair.to_leader.sendall(up + b'{"proof":"00"}\n')
    with pytest.raises(ChannelError, match="does not hold the token"):
        pair.leader.receive()
    assert not pair.leader.ready
    pair.close()


@given(st.data())
def test_any_change_of_a_line_closes_the_connection(data: st.DataObject) -> None:
    """One byte changed, a line left out, repeated, or sent back to its sender."""
    pair = Pair()
    pair.shake()
    for number in range(3):
        pair.follower.send({"number": number})
    up, _ = pair.carry()
    lines = up.splitlines(keepends=True)
    what = data.draw(st.sampled_from(["change", "drop", "repeat", "swap", "reflect"]))
    if what == "change":
        at = data.draw(st.integers(0, len(lines[0]) - 2))
        lines[0] = lines[0][:at] + bytes([lines[0][at] ^ 1]) + lines[0][at + 1 :]
    elif what == "drop":
        del lines[data.draw(st.integers(0, 1))]
    elif what == "repeat":
        lines.insert(1, lines[0])
    elif what == "swap":
        lines[0], lines[1] = lines[1], lines[0]
    target, end = (pair.to_follower, pair.follower) if what == "reflect" else (pair.to_leader, pair.leader)
    target.sendall(b"".join(lines))
    with pytest.raises(ChannelError, match=r"not what was sent|not JSON|too long"):
        end.receive()
    pair.close()


def test_a_replayed_connection_proves_nothing(pair: Pair) -> None:
    """Every line of an earlier connection of this node, sent again: the leader asks for another proof."""
    first = Pair()
    hello, _ = first.carry()
    first.to_leader.sendall(hello)
    first.leader.receive()
    _, answer = first.carry()
    first.to_follower.sendall(answer)
    first.follower.receive()
    proof, _ = first.carry()
    second = Pair()
    second.to_leader.sendall(hello + proof)
    with pytest.raises(ChannelError, match="does not hold the token"):
        second.leader.receive()
    first.close()
    second.close()


def _flood(pair: Pair, size: int) -> None:
    for _ in range(size // 4096 + 1):
        pair.to_leader.sendall(b"x" * 4096)
        pair.leader.receive()


@pytest.mark.parametrize("ready", [False, True])
def test_a_line_without_end_is_not_kept(ready: bool) -> None:
    """Before the proof a kilobyte is too much."""
    pair = Pair()
    if ready:
        pair.shake()
    limit = LINE_LIMIT if ready else GREETING_LIMIT
    pair.to_leader.settimeout(5)
    with pytest.raises(ChannelError, match="too long"):
        _flood(pair, limit + (1 << 17))
    pair.close()


def test_the_other_ends_death_is_heard(pair: Pair) -> None:
    """After what it had still said."""
    pair.follower.send({"last": True})
    up, _ = pair.carry()
    pair.to_leader.sendall(up)
    pair.to_leader.close()
    assert pair.leader.receive() == [{"last": True}]
    with pytest.raises(ChannelError, match="closed"):
        pair.leader.receive()
