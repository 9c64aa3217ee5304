"""What a terminal says of a run's nodes, second by second."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from torchdeck.cli.runs.watch import AGAIN, NodeNotes
from torchdeck.runs.node_troubles import NodeTrouble, TroubleKind

BEGUN = 1_000.0


def lost(now: float, state: str = "lost", node: str = "b") -> NodeTrouble:
    return NodeTrouble(node, TroubleKind.LINK, state, BEGUN, f"node {node}: {state} {now - BEGUN:.0f} s ago")


def test_a_trouble_is_said_once_then_at_longer_and_longer_ages_and_when_it_is_over() -> None:
    """Watched for two hours, looked at four times a second."""
    notes, said = NodeNotes(), []
    for quarter in range(4 * 2 * 3600):
        now = BEGUN + 10.0 + quarter / 4
        said += [(now - BEGUN, line) for line in notes.lines([lost(now)], now)]
    assert [age for age, _ in said] == [10.0, *AGAIN, AGAIN[-1] + 3600.0]
    assert said[1][1] == "node b: lost 60 s ago"
    assert notes.lines([], BEGUN + 7300) == ["node b: link is back after 7300 s"]
    assert notes.lines([], BEGUN + 7301) == []


def test_another_state_and_another_node_are_news() -> None:
    """Not the same one with another age."""
    notes = NodeNotes()
    assert len(notes.lines([lost(BEGUN + 11)], BEGUN + 11)) == 1
    assert notes.lines([lost(BEGUN + 12)], BEGUN + 12) == []
    now = BEGUN + 13
    assert notes.lines([lost(now), lost(now, node="c")], now) == ["node c: lost 13 s ago"]
    assert notes.lines([lost(now, "needs_login"), lost(now, node="c")], now) == [
        "node b: needs_login 13 s ago"
    ]


@given(st.lists(st.booleans(), max_size=60))
def test_each_end_is_said_once_for_each_beginning(there: list[bool]) -> None:
    """Whatever comes and goes, no line stands for nothing that changed."""
    notes, before = NodeNotes(), False
    for second, lasts in enumerate(there):
        now = BEGUN + second
        lines = notes.lines([lost(now)] if lasts else [], now)
        assert bool(lines) == (lasts != before)
        before = lasts
