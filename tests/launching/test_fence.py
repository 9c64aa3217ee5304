"""Agents of lives that are over are told to end, and no others."""

import json
from pathlib import Path

import pytest

from support import histories
from support.histories import event
from support.inbox_node import InboxNode
from torchdeck.agent.inbox import Inbox
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.launching.control.epoch import ControllerEpoch
from torchdeck.launching.control.requests import Request, place_request
from torchdeck.launching.leader.fence import Fence
from torchdeck.runs.replay.history import RunHistory

LOST = event("lost", 300.0, state="LOST", why="gone", life=0)
RESUMED = event("resumed", 400.0, finished=1)


def history(*journal: object, agent: int) -> RunHistory:
    found = RunHistory()
    for each in journal:
        assert isinstance(each, type(LOST))
        found.controller_event(each)
    found.node_event("a", event("agent_started", 100.0, identity=histories.AGENT, life=agent))
    return found


@pytest.fixture
def node(tmp_path: Path) -> InboxNode:
    return InboxNode("a", tmp_path / "inbox")


@pytest.fixture
def fence(node: InboxNode, tmp_path: Path) -> Fence:
    me = ProcessIdentity.of(1)
    assert me is not None
    return Fence([node], ControllerEpoch(tmp_path / "lock", me))


@pytest.mark.parametrize(
    ("journal", "agent", "told"),
    [
        ((), 0, False),
        ((LOST,), 0, True),
        ((LOST, RESUMED), 0, True),
        ((LOST, RESUMED), 1, False),
    ],
)
def test_who_is_told(
    node: InboxNode, fence: Fence, journal: tuple[object, ...], agent: int, *, told: bool
) -> None:
    """Those that live and belong to an earlier life, or to the one that is over; once."""
    for _ in range(3):
        fence.look(history(*journal, agent=agent))
    assert len(list(node.inbox.iterdir())) == told


def test_one_that_is_not_reached_is_told_when_it_is(node: InboxNode, fence: Fence) -> None:
    seen, node.seen = node.seen, None
    fence.look(history(LOST, agent=0))
    node.seen = seen
    fence.look(history(LOST, agent=0))
    (request,) = Inbox(node.inbox, frozenset(), life=0).read_new()
    assert (request.kind, request.origin, request.life) == ("stop_now", "replaced", 1)


def test_an_agent_of_the_life_that_is_protected_passes_it_over(node: InboxNode, fence: Fence) -> None:
    """It may have been started a moment before its start is known here; a request of a person is for all."""
    fence.look(history(LOST, RESUMED, agent=0))
    (path,) = node.inbox.iterdir()
    assert json.loads(path.read_text())["life"] == 1
    assert Inbox(node.inbox, frozenset(), life=1).read_new() == []
    assert len(Inbox(node.inbox, frozenset(), life=0).read_new()) == 1
    place_request(node.inbox, Request("1-stop-ab", "stop", "terminal"))
    assert [request.kind for request in Inbox(node.inbox, frozenset(), life=1).read_new()] == ["stop"]
