"""A connection proves its token on both ends, and any line that is not what was sent closes it."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.agent.lead.channel import FOLLOWER, GREETING_LIMIT, LEAD, LINE_LIMIT, Channel, ChannelError

TOKEN = b"the token"


class Pair:
    """Both ends, and the raw sockets between which a man in the middle stands."""

    def __init__(self, lead_token: bytes = TOKEN, follower_token: bytes = TOKEN, run: str = "run") -> None:
        near, self.to_lead = socket.socketpair()
        far, self.to_follower = socket.socketpair()
        for end in (self.to_lead, self.to_follower):
            end.settimeout(0)
        self.lead = Channel(near, LEAD, lead_token, "run")
        self.follower = Channel(far, FOLLOWER, follower_token, run, "beta")

    def close(self) -> None:
        for end in (self.lead, self.follower, self.to_lead, self.to_follower):
            end.close()

    def carry(self) -> tuple[bytes, bytes]:
        """(from the follower, from the lead): what is under way."""
        return _taken(self.to_follower), _taken(self.to_lead)

    def shake(self) -> None:
        """All of the handshake, faithfully."""
        for _ in range(3):
            up, down = self.carry()
            self.to_lead.sendall(up)
            self.to_follower.sendall(down)
            assert self.lead.receive() == []
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
    """The lead learns which node it is; messages go both ways, in order."""
    assert pair.lead.ready
    assert pair.follower.ready
    assert pair.lead.node == "beta"
    pair.follower.send({"up": 1})
    pair.follower.send({"up": 2})
    pair.lead.send({"down": "ü"})
    up, down = pair.carry()
    pair.to_lead.sendall(up)
    pair.to_follower.sendall(down)
    assert pair.lead.receive() == [{"up": 1}, {"up": 2}]
    assert pair.follower.receive() == [{"down": "ü"}]


@pytest.mark.parametrize(
    ("lead", "follower", "run"), [(TOKEN, b"other", "run"), (TOKEN, TOKEN, "another run")]
)
def test_another_token_or_run_is_turned_away(lead: bytes, follower: bytes, run: str) -> None:
    """By the follower first, as the lead proves itself first; neither ever sends the token."""
    pair = Pair(lead, follower, run)
    up, _ = pair.carry()
    pair.to_lead.sendall(up)
    pair.lead.receive()
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
    pair.to_lead.sendall(up + b'{"proof":"00"}\n')
    with pytest.raises(ChannelError, match="does not hold the token"):
        pair.lead.receive()
    assert not pair.lead.ready
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
    target, end = (pair.to_follower, pair.follower) if what == "reflect" else (pair.to_lead, pair.lead)
    target.sendall(b"".join(lines))
    with pytest.raises(ChannelError, match=r"not what was sent|not JSON|too long"):
        end.receive()
    pair.close()


def test_a_replayed_connection_proves_nothing(pair: Pair) -> None:
    """Every line of an earlier connection of this node, sent again: the lead asks for another proof."""
    first = Pair()
    hello, _ = first.carry()
    first.to_lead.sendall(hello)
    first.lead.receive()
    _, answer = first.carry()
    first.to_follower.sendall(answer)
    first.follower.receive()
    proof, _ = first.carry()
    second = Pair()
    second.to_lead.sendall(hello + proof)
    with pytest.raises(ChannelError, match="does not hold the token"):
        second.lead.receive()
    first.close()
    second.close()


def _flood(pair: Pair, size: int) -> None:
    for _ in range(size // 4096 + 1):
        pair.to_lead.sendall(b"x" * 4096)
        pair.lead.receive()


@pytest.mark.parametrize("ready", [False, True])
def test_a_line_without_end_is_not_kept(ready: bool) -> None:
    """Before the proof a kilobyte is too much."""
    pair = Pair()
    if ready:
        pair.shake()
    limit = LINE_LIMIT if ready else GREETING_LIMIT
    pair.to_lead.settimeout(5)
    with pytest.raises(ChannelError, match="too long"):
        _flood(pair, limit + (1 << 17))
    pair.close()


def test_the_other_ends_death_is_heard(pair: Pair) -> None:
    """After what it had still said."""
    pair.follower.send({"last": True})
    up, _ = pair.carry()
    pair.to_lead.sendall(up)
    pair.to_lead.close()
    assert pair.lead.receive() == [{"last": True}]
    with pytest.raises(ChannelError, match="closed"):
        pair.lead.receive()
