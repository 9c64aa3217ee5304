"""What a follower does with its ranks once the leader is given up, by values."""

from __future__ import annotations

import pytest

from torchdeck.agent.gang import commands, events
from torchdeck.agent.gang.recovery import NEVER_RAN_RETRIES
from torchdeck.agent.leader.silence import WHY, Leaderless
from torchdeck.contract.plan.policy import Policy
from torchdeck.contract.run_states import Outcome, StopCause, StopKind

GRACE = 5.0


def leaderless(unattended: str, *, running: bool = True) -> Leaderless:
    return Leaderless("b", Policy(unattended=unattended, node_grace=GRACE), 2, 100.0, running=running)


def test_ranks_go_on_and_torchrun_waits_for_nobody_after_them() -> None:
    """Its exit barrier is on the leading node; at the end the node sweeps, and departs after the grace."""
    node = leaderless("continue")
    assert node.begin(100.0) == [commands.GoAlone("b", 2)]
    assert not node.ends_something
    assert node.tick(1000.0) == []
    gone = node.handle(events.TorchrunExited("b", 2, 0, completed=True), 1000.0)
    assert [type(command) for command in gone] == [commands.CleanUp]
    ended = node.handle(events.NodeClean("b", 2, 0, 0, None), 1001.0)
    assert ended == [commands.CloseAttempt(2, Outcome.SUCCEEDED), commands.ReleaseLeases("b")]
    assert node.tick(1001.0 + GRACE - 0.1) == []
    assert node.tick(1001.0 + GRACE) == [commands.Leave(WHY, may_return=True)]


def test_ranks_are_ended_where_they_are_not_to_go_on() -> None:
    node = leaderless("stop")
    assert node.begin(100.0) == [commands.Terminate("b")]
    assert node.ends_something


@pytest.mark.parametrize("unattended", ["stop", "continue"])
def test_nothing_is_begun_without_a_lead(unattended: str) -> None:
    """An attempt that has not started torchrun is given up, and the devices are free."""
    assert leaderless(unattended, running=False).begin(100.0) == [
        commands.Abandon("b", 2),
        commands.ReleaseLeases("b"),
    ]


def test_a_node_that_is_to_go_ends_its_ranks_first_and_waits_for_nobody() -> None:
    """Though they were to continue without a leader: that one is there, and continues without them."""
    policy = Policy(unattended="continue", node_grace=GRACE)
    node = Leaderless("b", policy, 2, 100.0, running=True, leaving="the run continues without this node")
    assert node.begin(100.0) == [commands.Terminate("b")]
    node.handle(events.TorchrunExited("b", 2, 143, completed=False), 101.0)
    assert commands.ReleaseLeases("b") in node.handle(events.NodeClean("b", 2, 0, 0, None), 102.0)
    assert node.ends_something
    assert node.tick(102.0) == [commands.Leave("the run continues without this node")]


@pytest.mark.parametrize("running", [False, True])
def test_a_stop_ends_the_waiting_for_the_lead(*, running: bool) -> None:
    """The run was given up, or is resumed: its next life begins once this agent has departed."""
    node = leaderless("stop", running=running)
    node.begin(100.0)
    if running:
        node.handle(events.TorchrunExited("b", 2, 143, completed=False), 101.0)
        node.handle(events.StopRequested(StopKind.NOW, StopCause.REPLACED), 101.5)
        node.handle(events.NodeClean("b", 2, 0, 0, None), 102.0)
    else:
        node.handle(events.StopRequested(StopKind.NOW, StopCause.REPLACED), 102.0)
    assert node.tick(102.0) == [commands.Leave(WHY)]


@pytest.mark.parametrize(("restarts", "graces"), [(0, 1), (2, 1 + NEVER_RAN_RETRIES)])
def test_it_waits_for_its_lead_as_long_as_that_would_wait_for_it(restarts: int, graces: int) -> None:
    """A leader that may restart the gang tries it without the node for many graces; any other ends the
    run.
    """
    node = Leaderless("b", Policy(node_grace=GRACE, max_restarts=restarts), 2, 100.0, running=False)
    node.begin(100.0)
    assert node.tick(100.0 + graces * GRACE - 0.1) == []
    assert node.tick(100.0 + graces * GRACE) == [commands.Leave(WHY, may_return=True)]
