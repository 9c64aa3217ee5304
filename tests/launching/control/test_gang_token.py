"""How a later controller comes to a gang's token, by values: nodes that only answer, a clock of the test."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.agents.gang_run import make_gang_plan
from support.waiting import wait_until
from torchdeck.agent.attempt.handover import Handover, handover_from
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.launching.control.agent_watchdog import AgentUnavailableError, Handovers
from torchdeck.launching.control.gang_token import GangToken
from torchdeck.launching.requests import Request
from torchdeck.launching.transport import Supervision
from torchdeck.runs.replay.history import RunHistory

LISTENING = ("10.0.0.1", 4711)
PATIENCE = 120.0
ALIVE, HELD, GONE = Supervision(True, True), Supervision(False, True), Supervision(False, False)


class Node:
    """A node that says who lives there, and what its agent was handed."""

    unreached = ""

    def __init__(self, node: str, seen: Supervision | None, handed: bytes | None = None) -> None:
        self.node, self.seen, self.handed = node, seen, handed
        self.asked = 0

    def supervision(
        self,
        agent: ProcessIdentity | None,  # noqa: ARG002 - the node knows
        holder: ProcessIdentity | None,  # noqa: ARG002
    ) -> Supervision | None:
        return self.seen

    def kill(self, processes: Sequence[ProcessIdentity]) -> None:
        raise NotImplementedError

    def ask_handover(self) -> bytes:
        self.asked += 1
        if self.handed is None:
            raise TimeoutError("it did not answer")
        return self.handed

    def start_agent(self, handover: bytes) -> None:
        raise AssertionError(handover)

    def agent_exit(self) -> int | None:
        return None

    def agent_is_starting(self) -> bool:
        return False

    def agent_log(self) -> str:
        return ""

    def deliver(self, request: Request) -> None:
        raise AssertionError(request)


class Asked:
    """A controller's questions to two nodes, of which the first leads."""

    def __init__(self, plan: LaunchPlan, *nodes: Node) -> None:
        self.now = 0.0
        self.said: list[str] = []
        self.handovers = Handovers(plan, {"KEY": "given by the front end"})
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.token = GangToken(
            nodes,
            self.handovers,
            PATIENCE,
            self.said.append,
            lambda name, /, **fields: self.told.append((name, fields)),
            lambda: self.now,
            lambda act: act(),
        )

    def look(self, seconds: float = 2.0) -> bool:
        """Two of them: answers are taken in by the look after the question."""
        self.now += seconds
        return self.token.look(RunHistory(), "beta") or self.token.look(RunHistory(), "beta")

    def line(self, node: str) -> Handover | None:
        found = self.handovers.line(node, LISTENING)
        return None if found is None else handover_from(found)


@pytest.fixture
def plan(tmp_path: Path) -> LaunchPlan:
    """Of nodes `alpha` and `beta`; the latter's ranks need a secret."""
    made = make_gang_plan(["true"], tmp_path)
    return replace(made, nodes=(made.nodes[0], replace(made.nodes[1], secrets=("KEY",))))


def test_a_living_agent_tells_token_and_secrets(plan: LaunchPlan) -> None:
    """Whichever node it is on; its secrets are those that the run has, whatever is given now."""
    known = Handover("t0", LISTENING, {"KEY": "of the run"})
    leader, follower = Node("alpha", GONE), Node("beta", ALIVE, known.line())
    asked = Asked(plan, leader, follower)
    assert asked.line("alpha") is None
    assert asked.line("beta") is None
    assert asked.look()
    assert asked.line("alpha") == Handover("t0")
    assert asked.line("beta") == Handover("t0", LISTENING, {"KEY": "of the run"})
    assert leader.asked == 0


@pytest.mark.parametrize("handed", [None, b"", b"[]\n", b'{"token": ""}\n'])
def test_a_lead_that_does_not_tell_is_asked_as_long_as_the_gang_waits(
    plan: LaunchPlan, handed: bytes | None
) -> None:
    """A new token would keep it out, so none is made: the other's agent cannot be had, and that is said."""
    leader = Node("alpha", ALIVE, handed)
    asked = Asked(plan, leader, Node("beta", GONE))
    rounds = int(PATIENCE / 2.0)
    assert [asked.look() for _ in range(rounds)] == [False] * rounds
    assert leader.asked == rounds
    assert "the agent on alpha does not report" in asked.said[0]
    assert asked.told == [("token_asked", {"nodes": ["alpha"], "patience": PATIENCE})]
    with pytest.raises(
        AgentUnavailableError, match="alpha, which leads, is alive, but has not reported"
    ) as error:
        asked.look()
    assert error.value.node == "beta"
    assert asked.told[1:] == [("token_settled", {"how": "given up"})]
    assert asked.line("beta") is None


def test_another_that_does_not_tell_is_given_up_and_the_gang_begins_anew(plan: LaunchPlan) -> None:
    """Its agent lives on, and finds no one who holds its token."""
    asked = Asked(plan, Node("alpha", GONE), Node("beta", ALIVE))
    rounds = int(PATIENCE / 2.0)
    assert [asked.look() for _ in range(rounds + 1)] == [False] * rounds + [True]
    assert any("the agent on beta is given up" in said for said in asked.said)
    assert [name for name, _ in asked.told] == ["token_asked", "token_settled"]
    leader = asked.line("alpha")
    assert leader is not None
    assert len(leader.token) == 64


def test_who_tells_late_is_listened_to(plan: LaunchPlan) -> None:
    leader = Node("alpha", ALIVE)
    asked = Asked(plan, leader, Node("beta", GONE))
    assert not asked.look()
    leader.handed = Handover("t0").line()
    assert asked.look()
    assert asked.told[-1] == ("token_settled", {"how": "told"})


def test_the_patience_begins_when_an_agent_is_missing(plan: LaunchPlan) -> None:
    """A controller that has the run for days may come to ask late."""
    asked = Asked(plan, Node("alpha", ALIVE), Node("beta", GONE))
    assert not asked.look(1e6)
    assert not asked.look(PATIENCE - 11.0)
    assert not asked.look(1e6)


def test_a_holder_is_waited_for(plan: LaunchPlan) -> None:
    leader = Node("alpha", HELD)
    asked = Asked(plan, leader, Node("beta", GONE))
    assert not asked.look()
    leader.seen, leader.handed = ALIVE, Handover("t0").line()
    assert asked.look()
    assert asked.line("beta") == Handover("t0", LISTENING, {"KEY": "given by the front end"})


def test_where_nobody_lives_a_new_token_is_made_at_once(plan: LaunchPlan) -> None:
    asked = Asked(plan, Node("alpha", GONE), Node("beta", GONE))
    assert asked.look()
    leader, follower = asked.line("alpha"), asked.line("beta")
    assert leader is not None
    assert follower is not None
    assert len(leader.token) == 64
    assert follower.token == leader.token
    assert "starts over" in asked.said[-1]


def test_a_node_that_is_not_reached_may_know_it_and_is_waited_for_no_longer_than_the_gang_does(
    plan: LaunchPlan,
) -> None:
    asked = Asked(plan, Node("alpha", GONE), Node("beta", None))
    found = [asked.look() for _ in range(int(PATIENCE))]
    assert found.index(True) == int(PATIENCE / 2.0)


def test_an_agent_that_is_frozen_holds_nobody_up(plan: LaunchPlan) -> None:
    """All are asked at once, in threads; a look takes what has come and waits for nothing."""
    thaw = threading.Event()
    nodes = [Node("alpha", ALIVE), Node("beta", ALIVE, Handover("t0").line())]
    both = threading.Barrier(2)
    gave_up = threading.Event()

    def frozen() -> bytes:
        both.wait(20)
        thaw.wait(60)
        gave_up.set()
        raise TimeoutError("it did not answer")

    def answers() -> bytes:
        both.wait(20)  # the other is asked at the same time
        return nodes[1].handed or b""

    nodes[0].ask_handover, nodes[1].ask_handover = frozen, answers  # type: ignore[method-assign]
    handovers = Handovers(plan, {})
    token = GangToken(nodes, handovers, PATIENCE, lambda _: None, lambda _name, /, **_: None)
    try:
        assert not token.look(RunHistory(), "beta")
        wait_until(lambda: token.look(RunHistory(), "beta"), 20, "the other's answer")
        assert not gave_up.is_set()
    finally:
        thaw.set()
    found = handovers.line("alpha", LISTENING)
    assert found is not None
    assert handover_from(found).token == "t0"  # noqa: S105 - of a test
