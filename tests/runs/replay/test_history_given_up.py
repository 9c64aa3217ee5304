"""A life of a run that its controller has ended, because the leading node did not come back."""

from itertools import permutations

import pytest

from support.values import histories
from support.values.histories import event
from torchdeck.contract.journal import Event
from torchdeck.runs.replay.history import RunHistory
from torchdeck.runs.run_state import Liveness, NodeLiveness, RunState
from torchdeck.runs.view import RunView, view

LOST = event("lost", 300.0, state="LOST", why="gone", resumable=True, checkpoint="/c", attempt=1, life=0)
RESUMED = event("resumed", 400.0, finished=1, origin="terminal")


def agent(session: int, at: float, part: str = "lead") -> Event:
    return event("agent_started", at, identity=histories.AGENT, adopted=False, part=part, life=session)


LEADER = [agent(0, 101.0), event("launching", 102.0, attempt=1, nodes=["a", "b"]), event("running", 103.0)]
FOLLOWER = [agent(0, 101.0, "follower"), event("lead_lost", 200.0, unattended="stop")]
LATE = event("finished", 500.0, state="FAILED", why="this part of the run was replaced", resumable=False)


def seen(journal: list[Event], **nodes: list[Event]) -> RunView:
    """In whichever order the nodes' journals are read."""
    found = []
    for order in permutations(nodes):
        history = RunHistory()
        for each in [histories.created(), *journal]:
            history.controller_event(each)
        for node in order:
            for each in nodes[node]:
                history.node_event(node, each)
        nobody = Liveness(nodes={"a": NodeLiveness(), "b": NodeLiveness()})
        alive = Liveness(controller=True, nodes={"a": NodeLiveness(agent=True)})
        found.append(view("r", history, {}, nobody if history.end else alive, 1_000.0))
    assert all(each == found[0] for each in found)
    return found[0]


def test_it_is_lost_with_the_reason_and_resumable() -> None:
    found = seen([LOST], a=LEADER, b=FOLLOWER)
    assert (found.state, found.why, found.resumable, found.end_written) == (RunState.LOST, "gone", True, True)
    assert (found.attempt, found.finishes, found.ended) == (1, 1, 300.0)


@pytest.mark.parametrize(("state", "shown"), [("FAILED", "LOST"), ("SUCCEEDED", "SUCCEEDED")])
def test_a_leader_that_comes_back_may_say_that_it_had_finished(state: str, shown: str) -> None:
    """Where it failed, it is of what the run was given up for."""
    found = seen([LOST], a=[*LEADER, event("finished", 310.0, state=state, why="")], b=FOLLOWER)
    assert (found.state, found.finishes) == (RunState(shown), 1)


STOPPING = event("stopping", 200.0, kind="now", why="user")


def exits(*codes: int | None) -> list[Event]:
    """Of the ranks, as node a reports them; None: unknown."""
    return [
        event("rank_exited", 250.0 + rank, attempt=1, rank=rank, code=code, signal=None)
        for rank, code in enumerate(codes)
        if code is not None
    ]


def attempt_ended(outcome: str) -> Event:
    return event("attempt_ended", 260.0, attempt=1, outcome=outcome, first_failure=None)


@pytest.mark.parametrize(
    ("reported", "state"),
    [
        (exits(0, 0), "SUCCEEDED"),
        ([*exits(0, 0), attempt_ended("succeeded")], "SUCCEEDED"),
        ([attempt_ended("succeeded")], "SUCCEEDED"),
        ([STOPPING, *exits(143, 143)], "CANCELLED"),
        (exits(0, None), "LOST"),
        (exits(0, 1), "LOST"),  # the leader may have restarted the gang
        ([attempt_ended("failed")], "LOST"),
        ([event("stopping", 200.0, kind="now", why="replaced"), attempt_ended("stopped")], "LOST"),
    ],
)
def test_a_run_whose_ranks_have_all_ended_is_not_lost(reported: list[Event], state: str) -> None:
    """The leader's machine was switched off before its last lines arrived here."""
    found = seen([LOST], a=[*LEADER, *reported], b=FOLLOWER)
    assert found.state is RunState(state)
    assert found.resumable is (state != "SUCCEEDED")
    if state == "SUCCEEDED":
        assert found.why == "attempt 1 succeeded on all ranks; since then gone"
        assert found.attempts[-1].outcome == "succeeded"


def test_a_leader_that_comes_back_changes_nothing_once_the_run_was_resumed() -> None:
    """Neither what it did nor how it ended, whoever leads now."""
    late = [*LEADER, event("restarting", 450.0, reason="restart", delay=1.0), LATE]
    found = seen([LOST, RESUMED], a=late, b=FOLLOWER)
    assert (found.state, found.attempt, found.finishes) == (RunState.PENDING, None, 1)
    assert [attempt.number for attempt in found.attempts] == [1]
    now = [agent(1, 405.0), event("launching", 406.0, attempt=2, nodes=["c"]), event("running", 407.0)]
    found = seen([LOST, RESUMED], a=late, b=FOLLOWER, c=now)
    assert (found.state, found.attempt, found.finishes) == (RunState.RUNNING, 2, 1)
    ended = [*now, event("finished", 600.0, state="SUCCEEDED", why="all ranks finished")]
    found = seen([LOST, RESUMED], a=late, b=FOLLOWER, c=ended)
    assert (found.state, found.finishes) == (RunState.SUCCEEDED, 2)


def test_a_later_life_may_be_lost_too() -> None:
    """The ends of those before it are in the leader's journal."""
    first = [*LEADER, event("finished", 200.0, state="FAILED", why="", resumable=True)]
    again = [agent(1, 210.0), event("launching", 211.0, attempt=2, nodes=["a"]), event("running", 212.0)]
    resumed = event("resumed", 205.0, finished=1, origin="terminal")
    lost = event("lost", 300.0, state="LOST", why="gone", resumable=True, checkpoint="", life=1)
    found = seen([resumed, lost], a=[*first, *again])
    assert (found.state, found.attempt, found.finishes) == (RunState.LOST, 2, 2)
    twice = event("resumed", 400.0, finished=2, origin="terminal")
    third = [agent(2, 410.0), event("launching", 411.0, attempt=3, nodes=["a"]), event("running", 412.0)]
    found = seen([resumed, lost, twice], a=[*first, *again, *third])
    assert (found.state, found.attempt, found.finishes) == (RunState.RUNNING, 3, 2)


@pytest.mark.parametrize(("begun", "state"), [(False, RunState.FAILED), (True, RunState.RUNNING)])
def test_a_life_that_never_began_fails_at_once_without_its_leader(*, begun: bool, state: RunState) -> None:
    """What cannot be seen may live only if it was started; the controller still waits for the node then."""
    history = RunHistory()
    why = "node a was not reached within 90 s: no route"
    for each in [histories.created(), LOST, RESUMED, event("transport_failed", 490.0, node="a", why=why)]:
        history.controller_event(each)
    saved = event("checkpoint", 104.0, step=5, path="/c/step_5")
    for each in [*LEADER, saved, *([agent(1, 495.0), event("running", 496.0)] if begun else [])]:
        history.node_event("a", each)
    unknown = Liveness(controller=True, nodes={"a": NodeLiveness(known=False)})
    found = view("r", history, {}, unknown, 1_000.0)
    assert found.state is state
    assert (found.why == why) is not begun
    assert found.resumable is not begun, "from what the life before it has saved"
    assert found.checkpoint is not None
    assert found.processes_alive is begun, "another resume waits for nothing"


AWAY = event("lost", 300.0, state="LOST", why="gone", life=0, nodes=["a", "b"])


def test_nodes_that_did_not_answer_may_live_until_they_have_answered() -> None:
    """An older Torchdeck passes `fenced` over, and its own runs have none."""
    assert seen([AWAY], a=LEADER, b=FOLLOWER).unfenced == ("a", "b")
    one = event("fenced", 400.0, node="a", life=1)
    assert seen([AWAY, one], a=LEADER, b=FOLLOWER).unfenced == ("b",)
    found = seen([AWAY, one, event("fenced", 410.0, node="b", life=1)], a=LEADER, b=FOLLOWER)
    assert (found.unfenced, found.needs_controller) == ((), False)
    assert "unfenced" not in found.to_json()


def test_an_agent_of_a_later_session_has_replaced_that_of_a_lost_one() -> None:
    resumed = event("resumed", 310.0, finished=1)
    assert seen([AWAY, resumed], a=[*LEADER, agent(1, 320.0)], b=FOLLOWER).unfenced == ("b",)


def test_a_session_may_be_lost_on_a_node_that_was_fenced_in_an_earlier_one() -> None:
    twice = event("lost", 500.0, state="LOST", why="gone", life=1, nodes=["a"])
    journal = [AWAY, event("fenced", 350.0, node="a", life=1), RESUMED, twice]
    assert seen(journal, a=[*LEADER, agent(1, 405.0)], b=[*FOLLOWER, agent(1, 405.0)]).unfenced == ("a",)
