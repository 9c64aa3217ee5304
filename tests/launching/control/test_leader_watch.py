"""What a controller sees of a run whose leading node may be lost, and what it writes."""

from pathlib import Path
from typing import Any

import pytest

from support.values.histories import created, event
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.elastic import Elastic
from torchdeck.contract.plan.policy import Policy
from torchdeck.launching.control.leader_watch import LeaderWatch
from torchdeck.launching.requests import STOP, STOP_NOW, write_request
from torchdeck.runs.replay.history import RunHistory
from torchdeck.runs.run_state import Liveness, RunState
from torchdeck.runs.view import view

GRACE = 100.0
POLICY = Policy(node_grace=GRACE)
AGENT = {"identity": None, "life": 0}


class Nodes:
    """`a` leads and does not answer, `b` follows."""

    def __init__(self) -> None:
        self.unreached = {"a"}
        self.living: set[str] = set()
        self.ranks: set[str] = set()

    def is_connected(self, node: str) -> bool:
        return node not in self.unreached

    def heard(self, _node: str) -> float | None:
        return None

    def lives(self, node: str, _history: RunHistory) -> bool | None:
        return node in self.living if self.is_connected(node) else None

    def has_ranks(self, node: str) -> bool:
        return node in self.ranks


class Watched:
    """A run that both nodes have begun, and its controller's watch."""

    def __init__(self, folder: Path, policy: Policy = POLICY) -> None:
        self.layout, self.nodes, self.history = RunLayout(folder), Nodes(), RunHistory()
        self.watch = LeaderWatch(
            self.layout, self.nodes, ("a", "b"), Elastic([("a", 1), ("b", 1)]), policy, 0.0
        )
        self.tell("a", "agent_started", part="lead", **AGENT)
        self.tell("b", "agent_started", part="follower", **AGENT)
        self.tell("a", "launching", attempt=3, nodes=["a", "b"])

    def tell(self, node: str, name: str, **fields: object) -> None:
        self.history.node_event(node, event(name, 100.0, **fields))

    def given_up(self, after: float) -> bool:
        return self.watch.look(self.history, after) is not None


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    made = Watched(tmp_path)
    made.layout.control.mkdir(parents=True)
    return made


def test_what_is_written_of_it(watched: Watched) -> None:
    """Enough for the run to be shown and resumed."""
    watched.tell("b", "checkpoint", step=5, path="/c/step_5")
    watched.tell("b", "lead_lost", unattended="stop")
    found = watched.watch.look(watched.history, 2 * GRACE)
    assert found is not None
    why = "node a, the leader of the run, has not answered for 200 s; no rank is left on b"
    assert found == {
        "state": "LOST",
        "why": why,
        "resumable": True,
        "checkpoint": "/c/step_5",
        "attempt": 3,
        "life": 0,
        "nodes": ["a"],
    }
    watched.history.controller_event(event("lost", 300.0, **found))
    assert watched.history.end is not None


@pytest.mark.parametrize(("codes", "state"), [((0, 0), "SUCCEEDED"), ((0, 1), "LOST"), ((0,), "LOST")])
def test_a_run_whose_ranks_have_all_ended_is_not_written_as_lost(
    watched: Watched, codes: tuple[int, ...], state: str
) -> None:
    """The leader's machine was switched off after the job, and its follower has left as usual."""
    watched.history.controller_event(created())
    for rank, code in enumerate(codes):
        node = "ab"[rank]
        watched.tell(node, "rank_exited", attempt=3, rank=rank, code=code, signal=None)
    watched.tell("b", "checkpoint", step=5, path="/c/step_5")
    watched.tell("b", "node_finished", why="the run is over")
    assert not watched.given_up(GRACE)
    found = watched.watch.look(watched.history, 2 * GRACE)
    assert found is not None
    assert (found["state"], found["resumable"]) == (state, state == "LOST")
    assert found["why"].startswith("attempt 3 succeeded on all ranks; since then node a") is (
        state == "SUCCEEDED"
    )
    watched.history.controller_event(event("lost", 300.0, **found))
    assert view("r", watched.history, {}, Liveness(), 400.0).state is RunState(state)


def test_a_follower_that_has_said_nothing_is_believed_to_follow(watched: Watched) -> None:
    """While it lives; and so is one that hears its leader again."""
    watched.nodes.living.add("b")
    assert not watched.given_up(9 * GRACE)
    watched.tell("b", "lead_lost", unattended="stop")
    watched.tell("b", "lead_back")
    assert not watched.given_up(9 * GRACE)


def test_a_follower_without_any_process_ends_the_wait(watched: Watched) -> None:
    """A reboot of it, say, and this machine has no key of the run to start another agent there."""
    assert not watched.given_up(GRACE)
    assert not watched.given_up(2 * GRACE - 1)
    assert watched.given_up(2 * GRACE)


def test_one_that_gave_up_and_departed_is_remembered(watched: Watched) -> None:
    watched.tell("b", "lead_lost", unattended="stop")
    watched.tell("b", "node_finished", why="silence", may_return=True)
    assert watched.given_up(2 * GRACE)


def test_ranks_that_go_on_without_the_lead_are_the_run(watched: Watched) -> None:
    """As launch.unattended = "continue" asks: until they have ended."""
    watched.nodes.living.add("b")
    watched.nodes.ranks.add("b")
    watched.tell("b", "lead_lost", unattended="continue")
    assert not watched.given_up(9 * GRACE)
    watched.tell("b", "node_finished", why="silence", may_return=True)
    watched.nodes.ranks.clear()
    assert watched.given_up(9 * GRACE)


def test_ranks_that_are_being_ended_are_waited_for(watched: Watched) -> None:
    watched.nodes.living.add("b")
    watched.nodes.ranks.add("b")
    watched.tell("b", "lead_lost", unattended="stop")
    assert not watched.given_up(2 * GRACE - 1)
    assert watched.given_up(2 * GRACE)


@pytest.mark.parametrize(("kind", "given_up"), [(STOP, False), (STOP_NOW, True)])
def test_only_a_stop_now_ends_what_nobody_hears_of(watched: Watched, kind: str, *, given_up: bool) -> None:
    watched.nodes.unreached.add("b")
    assert not watched.given_up(9 * GRACE)
    write_request(watched.layout, kind, "terminal")
    assert watched.given_up(9 * GRACE) == given_up


def test_an_agent_that_cannot_be_replaced_ends_the_run(watched: Watched) -> None:
    """Its node is reached, so that silence alone proves nothing."""
    watched.nodes.unreached.clear()
    assert not watched.given_up(9 * GRACE)
    found = watched.watch.look(watched.history, 9 * GRACE, "the agent on a is silent")
    assert found is not None
    assert (found["state"], found["why"], found["nodes"]) == ("LOST", "the agent on a is silent", ["a"])


def test_a_spare_that_lost_all_others_is_no_proof_of_their_end(tmp_path: Path) -> None:
    """This machine and the spare may be the ones that are cut off: leader and member train on."""
    layout, nodes, history = RunLayout(tmp_path), Nodes(), RunHistory()
    layout.control.mkdir(parents=True)
    history.node_event("a", event("agent_started", 100.0, part="lead", **AGENT))
    history.node_event("c", event("agent_started", 100.0, part="follower", **AGENT))
    history.node_event("c", event("lead_lost", 101.0, seconds=GRACE, attempt=1))
    nodes.unreached = {"a", "b"}
    places = [("a", 1), ("b", 1)]
    history.node_event("a", event("launching", 100.5, attempt=1, nodes=["a", "b"]))
    for elastic, given_up in (
        (Elastic(places, spares=[("c", 1)]), False),
        (Elastic([*places, ("c", 1)]), True),
    ):
        watch = LeaderWatch(layout, nodes, ("a", "b", "c"), elastic, POLICY, 0.0)
        assert (watch.look(history, 3 * GRACE) is not None) is given_up


@pytest.mark.parametrize("does", ["gave up", "was rebooted"])
def test_a_member_of_a_range_proves_the_end_though_the_others_could_begin_again(
    does: str, tmp_path: Path
) -> None:
    """The leader and b have lost power, say: two of three nodes would be enough, but none may ever return."""
    layout, nodes, history = RunLayout(tmp_path), Nodes(), RunHistory()
    layout.control.mkdir(parents=True)
    for node, part in (("a", "lead"), ("b", "follower"), ("c", "follower")):
        history.node_event(node, event("agent_started", 100.0, part=part, **AGENT))
    history.node_event("a", event("launching", 100.5, attempt=1, nodes=["a", "b", "c"]))
    if does == "gave up":
        history.node_event("c", event("lead_lost", 101.0, seconds=GRACE, attempt=1))
    nodes.unreached = {"a", "b"}
    elastic = Elastic([("a", 1), ("b", 1), ("c", 1)], sizes=[(2, 1)])
    watch = LeaderWatch(layout, nodes, ("a", "b", "c"), elastic, POLICY, 0.0)
    assert watch.look(history, GRACE) is None
    found = watch.look(history, 2 * GRACE)
    assert found is not None
    assert found["nodes"] == ["a", "b"]


@pytest.mark.parametrize(("limit", "expected"), [(None, None), (5 * GRACE, ("LOST", ["a", "b"], 3))])
def test_a_run_that_no_node_reports_on_is_lost_after_the_limit_of_its_plan(
    tmp_path: Path, limit: float | None, expected: tuple[Any, ...] | None
) -> None:
    """Without a limit it keeps its state; what is known of it stays enough to resume it."""
    made = Watched(tmp_path, Policy(node_grace=GRACE, lost_after=limit))
    made.nodes.unreached = {"a", "b"}
    assert not made.given_up(0.0)
    assert not made.given_up(5 * GRACE - 1)
    found = made.watch.look(made.history, 5 * GRACE)
    assert (found and (found["state"], found["nodes"], found["attempt"])) == expected
