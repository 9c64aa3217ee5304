"""Each message is taken once and in order, whatever breaks in between."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.agent.leader.channel import Exchange

STEPS = st.lists(
    st.one_of(
        st.just(("tell",)),
        st.just(("arrive",)),
        st.just(("break",)),
        st.just(("again",)),
        st.just(("twice",)),
    ),
    max_size=60,
)


class ProbeSession:
    """Two sides and the line between them; `line` holds what is under way."""

    def __init__(self) -> None:
        self.teller, self.hearer = Exchange("teller"), Exchange("hearer")
        self.line: list[dict[str, Any]] = []
        self.told: list[int] = []
        self.heard: list[int] = []
        self.connect()

    def connect(self) -> None:
        """A new connection: what was under way is lost, and each says how far it heard the other."""
        self.line = []
        theirs = self.hearer.greeting()
        self.hearer.greeted(self.teller.greeting())
        self.line += self.teller.greeted(theirs)

    def tell(self) -> None:
        number = len(self.told)
        self.told.append(number)
        self.line.append(self.teller.tell(1, {"is": "Number", "number": number}))

    def arrive(self) -> None:
        if not self.line:
            return
        entry = self.hearer.take(self.line.pop(0))
        if entry is not None:
            self.heard.append(entry.message["number"])

    def new_hearer(self) -> None:
        """Another process hears on; it is told all of the current attempt again."""
        self.hearer, self.heard = Exchange("another"), []
        self.connect()


@given(STEPS)
def test_nothing_is_lost_doubled_or_turned_round(steps: list[tuple[str]]) -> None:
    """Cuts at any point, repeated lines, and a hearer that is started again."""
    probe_session = ProbeSession()
    for (what,) in steps:
        if what == "tell":
            probe_session.tell()
        elif what == "arrive":
            probe_session.arrive()
        elif what == "break":
            probe_session.connect()
        elif what == "again":
            probe_session.new_hearer()
        elif probe_session.line:
            probe_session.line.insert(0, probe_session.line[0])
        assert probe_session.heard == probe_session.told[: len(probe_session.heard)]
    while probe_session.line:
        probe_session.arrive()
    assert probe_session.heard == probe_session.told


def test_it_is_settled_once_all_was_heard() -> None:
    """An acknowledgement of more than was told counts as of all, and no more."""
    probe_session = ProbeSession()
    settled = [probe_session.teller.settled]
    probe_session.tell()
    settled.append(probe_session.teller.settled)
    probe_session.arrive()
    probe_session.teller.acknowledged(probe_session.hearer.acknowledgement()["ack"])
    settled.append(probe_session.teller.settled)
    probe_session.teller.acknowledged(10**6)
    probe_session.tell()
    settled.append(probe_session.teller.settled)
    assert settled == [True, False, True, False]


def test_what_is_over_is_not_said_again() -> None:
    """A new attempt makes what was said of earlier ones worthless, and an order an older one of its kind."""
    teller = Exchange("teller")
    teller.tell(0, {"is": "AcquireLeases"})
    teller.tell(1, {"is": "Terminate"})
    teller.tell(2, {"is": "Gather"})
    teller.forget_before(2)
    teller.tell(2, {"is": "AcquireLeases"})
    teller.forget("AcquireLeases")
    again = teller.greeted(Exchange("new").greeting())
    assert [entry["m"]["is"] for entry in again] == ["Gather"]


@pytest.mark.parametrize(
    "value", [{}, {"n": "1", "a": 1, "m": {}}, {"n": True, "a": 1, "m": {}}, {"n": 1, "a": 1}]
)
def test_what_is_no_message_is_refused(value: dict[str, Any]) -> None:
    """And so is a greeting that says nothing."""
    with pytest.raises(ValueError, match="numbered"):
        Exchange("x").take(value)
    with pytest.raises(ValueError, match="hello"):
        Exchange("x").greeted({"who": 3})
