"""Until when a controller follows nodes that continue without their leader, by values."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.agents.inbox_node import InboxNode
from support.values import histories
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.launching.control.leaderless_nodes import LeaderlessNodes
from torchdeck.launching.epoch import ControllerEpoch
from torchdeck.launching.requests import STOP, STOP_NOW, write_request
from torchdeck.launching.transport import LINGER, Transport
from torchdeck.runs.replay.history import RunHistory


@dataclass
class Nodes:
    """One that is reached or not, and lived on or not."""

    reached: bool = True
    deserted: bool = False
    transports: Sequence[Transport] = ()

    def is_connected(self, _node: str) -> bool:
        return self.reached

    def lives(self, _node: str, _history: RunHistory) -> bool | None:
        return not self.deserted if self.reached else None


class Journal:
    """The run's, read by a history at once."""

    def __init__(self, history: RunHistory) -> None:
        self.history = history
        self.events: list[str] = []

    def append(self, name: str, /, **fields: Any) -> None:
        self.events.append(name)
        self.history.controller_event(histories.event(name, 500.0, **fields))


@pytest.fixture
def history() -> RunHistory:
    """Node `b` has lost its leader and continues."""
    made = RunHistory()
    made.node_event("b", histories.event("lead_lost", 400.0, unattended="continue"))
    return made


def leaderless(folder: Path, nodes: Nodes, journal: Journal) -> LeaderlessNodes:
    me = ProcessIdentity.of(1)
    assert me is not None
    layout = RunLayout(folder)
    return LeaderlessNodes(layout, nodes, ControllerEpoch(layout.controller_lock, me), journal)


def test_a_node_that_was_started_anew_is_followed_no_more(tmp_path: Path, history: RunHistory) -> None:
    """It is reached, and no one there will ever say that the ranks have ended: that is written down, once."""
    nodes, journal = Nodes(), Journal(history)
    following = leaderless(tmp_path, nodes, journal)
    assert following.go_on(history, 1e9)
    nodes.deserted = True
    assert not following.go_on(history, 1e9)
    assert not following.go_on(history, 1e9)
    assert journal.events == ["deserted"]
    assert history.nodes.go_on_alone == ()


def test_a_node_that_is_off_is_waited_for_as_long_as_its_files(tmp_path: Path, history: RunHistory) -> None:
    nodes, journal = Nodes(), Journal(history)
    following = leaderless(tmp_path, nodes, journal)
    assert following.go_on(history, 1e9)
    nodes.reached = False
    assert following.go_on(history, 1e9 + LINGER - 1)
    assert not following.go_on(history, 1e9 + LINGER)
    assert journal.events == []
    assert history.nodes.go_on_alone == ("b",)


def test_a_node_that_lives_may_give_up_the_lead_after_its_end(tmp_path: Path) -> None:
    """A follower that has said neither that nor that it ends is followed on, though not for ever."""
    history = RunHistory()
    history.node_event("b", histories.event("agent_started", 300.0, part="follower"))
    nodes = Nodes()
    following = leaderless(tmp_path, nodes, Journal(history))
    assert following.go_on(history, 1e9)
    assert not following.go_on(history, 1e9 + LINGER)
    history.node_event("b", histories.event("lead_lost", 400.0, unattended="continue"))
    assert following.go_on(history, 1e9 + 1)
    history.node_event("b", histories.event("node_finished", 400.0, why="over"))
    assert not following.go_on(history, 1e9 + 1)


@pytest.mark.parametrize("kind", [STOP, STOP_NOW])
@pytest.mark.parametrize("reached", [False, True])
def test_a_stop_now_goes_by_the_others_while_the_lead_is_not_reached(
    tmp_path: Path, kind: str, *, reached: bool
) -> None:
    """They hand it to the leader, which they may hear; once."""
    leader, other = (InboxNode(name, tmp_path / name) for name in ("a", "b"))
    following = leaderless(
        tmp_path, Nodes(reached=reached, transports=(leader, other)), Journal(RunHistory())
    )
    layout = RunLayout(tmp_path)
    layout.control.mkdir()
    write_request(layout, kind, "terminal")
    for _ in range(2):
        following.forward(RunHistory())
    assert list(leader.inbox.iterdir()) == []
    assert len(list(other.inbox.iterdir())) == (kind == STOP_NOW and not reached)
