"""Agents of lives that are over are told to end, and no others."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.agents.inbox_node import InboxNode
from support.values import histories
from support.values.histories import event
from torchdeck.agent.inbox import Inbox
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.launching.epoch import ControllerEpoch, Fence
from torchdeck.launching.requests import Request, page_request
from torchdeck.launching.transport import Transport
from torchdeck.runs.replay.history import RunHistory

LOST = event("lost", 300.0, state="LOST", why="gone", life=0, nodes=["a"])
RESUMED = event("resumed", 400.0, finished=1)


def history(*journal: object, agent: int) -> RunHistory:
    found = RunHistory()
    for each in journal:
        assert isinstance(each, type(LOST))
        found.controller_event(each)
    found.node_event("a", event("agent_started", 100.0, identity=histories.AGENT, life=agent))
    return found


class Nodes:
    """One node, and a journal."""

    def __init__(self, node: InboxNode) -> None:
        self.transports: Sequence[Transport] = [node]
        self.alive: bool | None = True
        self.journal: list[dict[str, object]] = []

    def lives(self, *_which: object) -> bool | None:
        return self.alive

    def append(self, name: str, /, **fields: object) -> None:
        self.journal.append({"event": name, **fields})


@pytest.fixture
def node(tmp_path: Path) -> InboxNode:
    return InboxNode("a", tmp_path / "inbox")


@pytest.fixture
def nodes(node: InboxNode) -> Nodes:
    return Nodes(node)


@pytest.fixture
def fence(nodes: Nodes, tmp_path: Path) -> Fence:
    me = ProcessIdentity.of(1)
    assert me is not None
    return Fence(nodes, ControllerEpoch(tmp_path / "lock", me), nodes)


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
    (request,) = Inbox(node.inbox, frozenset(), session=0).read_new()
    assert (request.kind, request.origin, request.session) == ("stop_now", "replaced", 1)


@pytest.mark.parametrize("journal", [(LOST,), (LOST, RESUMED)])
def test_a_node_is_fenced_once_nothing_of_the_lost_session_lives_there(
    nodes: Nodes, fence: Fence, journal: tuple[object, ...]
) -> None:
    """A node that does not answer may be running it still; what is noted once is not noted again."""
    found = history(*journal, agent=0)
    for alive in (None, True, None):
        nodes.alive = alive
        fence.look(found)
    assert (found.needs_controller, found.unfenced, nodes.journal) == (True, ("a",), [])
    nodes.alive = False
    for _ in range(3):
        fence.look(found)
    assert nodes.journal == [{"event": "fenced", "node": "a", "life": 1}]
    found.controller_event(event("fenced", 500.0, node="a", life=1))
    assert (found.needs_controller, found.unfenced) == (len(journal) == 2, ())


def test_an_agent_of_the_life_that_is_protected_passes_it_over(node: InboxNode, fence: Fence) -> None:
    """It may have been started a moment before its start is known here; a request of a person is for all."""
    fence.look(history(LOST, RESUMED, agent=0))
    (path,) = node.inbox.iterdir()
    assert json.loads(path.read_text())["life"] == 1
    assert Inbox(node.inbox, frozenset(), session=1).read_new() == []
    assert len(Inbox(node.inbox, frozenset(), session=0).read_new()) == 1
    page_request(node.inbox, Request("1-stop-ab", "stop", "terminal"))
    assert [request.kind for request in Inbox(node.inbox, frozenset(), session=1).read_new()] == ["stop"]
