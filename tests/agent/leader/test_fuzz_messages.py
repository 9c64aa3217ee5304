"""Hostile lines of a node that holds the run's token to its leader, and of a leader to its nodes."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from support.values.machines import config, node, plan
from torchdeck.agent.gang import commands, events
from torchdeck.agent.leader.channel import FOLLOWER, LEADER, LINE_LIMIT, Channel
from torchdeck.agent.leader.follower import Follower
from torchdeck.agent.leader.leader import Leader
from torchdeck.agent.leader.listener import Listener
from torchdeck.contract.journal import JournalWriter

PLAN = plan(config(distributed={"nodes": ["n1", "n2"]}), node("n1"), node("n2"))
TOKEN = b"token"
PLAIN: dict[Any, object] = {str: "n2", int: 1, float: 1.0, bool: True}


def example(kind: Any) -> Any:
    """A sound value of an annotation of a message's field, as JSON."""
    if kind in PLAIN:
        return PLAIN[kind]
    if hasattr(kind, "_fields"):
        return {name: example(hint) for name, hint in get_type_hints(kind).items()}
    if get_origin(kind) is tuple:
        return [example(get_args(kind)[0])]
    if type(None) in get_args(kind):
        return example(get_args(kind)[0])
    return {"device": "0"}


def lines(kinds: tuple[Any, ...], *others: dict[str, Any]) -> st.SearchStrategy[bytes]:
    """Some messages one after the other, of which some are none."""
    named = [{"is": kind.__name__, **example(kind)} for kind in kinds]
    numbered = [{"n": at, "a": 1, "m": value} for at, value in enumerate(named, 1)]
    return st.lists(hostile.documents(*numbered, *others), max_size=6).map(b"\n".join)


class Other:
    """The other end of a connection, after the handshake: it seals whatever it is told to send."""

    def __init__(self, role: str) -> None:
        near, self._socket = socket.socketpair()
        other = LEADER if role == FOLLOWER else FOLLOWER
        self.channel = Channel(near, other, TOKEN, "run", "n2" if other == FOLLOWER else "")
        self._own = Channel(self._socket, role, TOKEN, "run", "n2" if role == FOLLOWER else "")
        self._role = role
        while not (self.channel.ready and self._own.ready):
            assert self.channel.receive() == self._own.receive() == []

    def sealed(self, case: bytes) -> bytes:
        """The lines of a case as they would be sent; what may not be so long is cut."""
        whole = [line[: LINE_LIMIT - 100] for line in case.split(b"\n")]
        seals = (self._own._seal(self._role, number, line) for number, line in enumerate(whole))
        return b"".join(seal + b" " + line + b"\n" for seal, line in zip(seals, whole, strict=True))

    def send(self, content: bytes) -> bytes:
        """Send what can be sent now; returns the rest, nothing once the connection is closed."""
        try:
            return content[self._socket.send(content) :]
        except BlockingIOError:
            return content
        except OSError:
            return b""

    def close(self) -> None:
        self._own.close()
        self.channel.close()


def lead_a_hostile_node(case: bytes, place: Path) -> None:
    """It may lose its connection, and spoil its run; the leader's agent does not end by an error."""
    other = Other(FOLLOWER)
    listening = socket.socket()
    listener = Listener(listening, TOKEN, "run", frozenset(["n2"]))
    listener.channels["n2"] = other.channel
    listener._accept_at = float("inf")
    journal = JournalWriter(place / "journal.jsonl")
    with contextlib.closing(other), contextlib.closing(listening), contextlib.closing(journal):
        leader = Leader(PLAN, "n1", journal, listener, 0.0)
        leader.handle(events.NodeReady("n1"), 0.0)
        rest, now = other.sealed(case), 0.0
        while rest and listener.channels:
            rest, now = other.send(rest), now + 1.0
            leader.exchange(now)
        leader.handle(events.Tick(), now + 1e6)


def test_messages_of_nodes() -> None:
    answers = ({"who": "x", "peer": "", "heard": 0}, {"ack": 3}, {"pong": 1.0, "wall": 1e9, "time": 1e9})
    read_all(lead_a_hostile_node, lines(get_args(events.Event), *answers))


def follow_a_hostile_leader(case: bytes, place: Path) -> None:
    other = Other(LEADER)
    journal = JournalWriter(place / "journal.jsonl")
    with contextlib.closing(other), contextlib.closing(journal):
        follower = Follower(PLAN, "n2", journal, "run", TOKEN, ("127.0.0.1", 1), 0.0)
        follower._channel, follower._due = other.channel, float("inf")
        rest, now = other.sealed(case), 0.0
        while rest and follower._channel is not None:
            rest, now = other.send(rest), now + 1.0
            follower.exchange(now)


def test_messages_of_leaders() -> None:
    asked = ({"who": "x", "peer": "", "heard": 0}, {"ack": 3}, {"ping": 1.0, "wall": 1e9})
    read_all(follow_a_hostile_leader, lines(get_args(commands.Command), *asked))
