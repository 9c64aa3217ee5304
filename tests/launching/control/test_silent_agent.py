"""When an agent that does not run is ended, by values."""

from pathlib import Path

import pytest

from support.agents.inbox_node import InboxNode
from support.values.histories import AGENT, HOLDER, event
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.launching.control.silent_agent import NEXT_LIMIT, Silence, SilentAgent
from torchdeck.launching.epoch import ControllerEpoch
from torchdeck.launching.requests import STOP, STOP_NOW, write_request
from torchdeck.runs.replay.history import RunHistory

GRACE = 100.0


class Silent:
    """A run whose agent has written one heartbeat, and a journal."""

    def __init__(self, folder: Path) -> None:
        self.layout, self.history = RunLayout(folder / "run"), RunHistory()
        self.layout.control.mkdir(parents=True)
        self.node = InboxNode("a", self.layout.node("a").inbox)
        self.history.node_event("a", event("agent_started", identity=AGENT, life=0))
        self.history.node_event("a", event("attempt_started", attempt=1, holder=HOLDER))
        self.journal, self.said = list[tuple[str, dict[str, object]]](), list[str]()
        self.beat()
        me = ProcessIdentity.of(1)
        assert me is not None
        epoch = ControllerEpoch(self.layout.controller_lock, me)
        silence = Silence(GRACE, 0.0)
        self.agent = SilentAgent(self.layout, self.node, epoch, self, silence, self.said.append)
        self.look(0.0)

    def append(self, name: str, /, **fields: object) -> None:
        self.journal.append((name, fields))

    def beat(self) -> None:
        path = self.layout.node("a").heartbeat
        path.with_suffix(".new").write_text("{}")
        path.with_suffix(".new").replace(path)

    def look(self, now: float) -> list[list[int]]:
        """The pids that were ended until now, one list for each time."""
        self.agent.look(self.history, now)
        return [[process.pid for process in each] for each in self.node.killed]


@pytest.fixture
def silent(tmp_path: Path) -> Silent:
    return Silent(tmp_path)


def test_the_agent_is_ended_first_and_then_its_shim_too(silent: Silent) -> None:
    write_request(silent.layout, STOP_NOW, "terminal")
    assert silent.look(GRACE - 1) == []
    agent, shim = AGENT["pid"], HOLDER["pid"]
    assert silent.look(GRACE) == silent.look(GRACE + NEXT_LIMIT - 1) == [[agent]]
    assert silent.look(GRACE + NEXT_LIMIT) == silent.look(9 * GRACE) == [[agent], [agent, shim]]
    assert silent.journal == [
        ("agent_killed", {"node": "a", "seconds": GRACE, "shim": False}),
        ("agent_killed", {"node": "a", "seconds": GRACE + NEXT_LIMIT, "shim": True}),
    ]


def test_only_a_stop_now_ends_an_agent(silent: Silent) -> None:
    """Without one the user may continue it."""
    write_request(silent.layout, STOP, "terminal")
    assert silent.look(9 * GRACE) == []
    write_request(silent.layout, STOP_NOW, "terminal")
    assert len(silent.look(9 * GRACE + 1)) == 1, "it has been silent for long"


def test_a_sign_of_life_begins_the_grace_again(silent: Silent) -> None:
    write_request(silent.layout, STOP_NOW, "terminal")
    silent.look(GRACE - 1)
    silent.beat()
    assert silent.look(GRACE) == silent.look(2 * GRACE - 1) == []
    assert len(silent.look(2 * GRACE)) == 1


def test_an_agent_that_is_not_reached_may_run(silent: Silent) -> None:
    write_request(silent.layout, STOP_NOW, "terminal")
    silent.node.unreached = "no route to host"
    assert silent.look(9 * GRACE) == []
    silent.node.unreached = ""
    assert silent.look(9 * GRACE + 1) == []
    assert len(silent.look(10 * GRACE)) == 1


def test_a_node_that_cannot_do_it_is_asked_once_more(silent: Silent) -> None:
    write_request(silent.layout, STOP_NOW, "terminal")
    seen, silent.node.seen = silent.node.seen, None
    assert silent.look(GRACE) == silent.look(GRACE + NEXT_LIMIT - 1) == []
    assert silent.said == ["the agent on a cannot be ended: it is not reached"]
    silent.node.seen = seen
    assert len(silent.look(GRACE + NEXT_LIMIT)) == len(silent.journal) == 1


def test_the_run_is_given_up_if_no_other_agent_comes(silent: Silent) -> None:
    """Its disk is dead, say: SIGKILL waits for it."""
    write_request(silent.layout, STOP_NOW, "terminal")
    for now in (GRACE, GRACE + NEXT_LIMIT, GRACE + 2 * NEXT_LIMIT - 1):
        assert silent.agent.look(silent.history, now) == ""
    assert silent.agent.look(silent.history, GRACE + 2 * NEXT_LIMIT) == (
        "the agent on node a has given no sign of life for 160 s and could not be replaced; a stop was "
        "asked for"
    )
    silent.beat()
    assert silent.agent.look(silent.history, 9 * GRACE) == "", "another runs now"
