"""Agents of a gang that are killed, the leader's too: others continue, or no one comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.agents.agent_run import with_policy
from support.agents.agent_scripts import freeze, kill, kill_and_wait
from support.agents.gang_run import GangRun
from support.agents.gang_scripts import SHORT_GRACE, WAITING, Maker, go, up, wait_for_another
from support.waiting import wait_until
from torchdeck.agent.node import TOLD_LIMIT
from torchdeck.contract.atomic import read_json


@pytest.mark.parametrize("names", [("alpha",), ("beta",), ("alpha", "beta")])
def test_agents_are_killed_and_the_run_goes_on(make_gang: Maker, names: tuple[str, ...]) -> None:
    """kill -9 of the leader's agent, a follower's, both: each is started again and knows where the run
    was.
    """
    run = up(make_gang(WAITING).start())
    run.wait("running")
    before = {name: run.agent(name) for name in names}
    for identity in before.values():
        kill(identity)
    for name, identity in before.items():
        wait_for_another(run, name, identity)
    run.wait("node_joined", count=2)
    go(run)
    assert run.finished()["state"] == "SUCCEEDED"
    for name in run.names:
        assert len(run.events("attempt_started", node=name)) == 1
    assert len(run.events("launching")) == len(run.events("running")) == 1


def test_a_lead_that_is_killed_while_all_begin(make_gang: Maker) -> None:
    """What it journaled of the start is what every node begins with, once."""
    run = make_gang(WAITING).start()
    run.wait("launching")
    kill_and_wait(run.agent("alpha"))
    run.start_agent("alpha")  # as the controller does, where there is no shim yet
    up(run)
    go(run)
    assert run.finished()["state"] == "SUCCEEDED"
    assert len(run.events("launching")) == 1
    for name in run.names:
        assert len(run.events("attempt_started", node=name)) == 1


def test_unattended_ranks_go_on_to_their_end(make_gang: Maker) -> None:
    """launch.unattended = "continue": with the leading node gone for good, ranks come to their end."""
    run = make_gang(
        WAITING, policy=with_policy(node_silent=0.3, node_grace=SHORT_GRACE, unattended="continue")
    )
    up(run.start())
    run.wait("running")
    for identity in (run.held("alpha", "holder"), run.agent("alpha")):
        kill(identity)
    run.wait("lead_lost", node="beta")
    assert not run.events("signalled", node="beta")
    go(run)
    run.wait("node_finished", node="beta")
    assert run.events("rank_exited", node="beta")[0].fields["code"] == 0


def last_said(run: GangRun, *names: str) -> str:
    """Which of these the second node said last: a leader that is silent for a moment is back before, too."""
    return [event.name for event in run.events(node="beta") if event.name in names][-1]


@pytest.mark.parametrize("back", [True, False])
def test_torchrun_waits_for_other_ranks_while_there_is_a_lead(
    make_gang: Maker, tmp_path: Path, *, back: bool
) -> None:
    """Its own ranks have ended. With a leader that came back it waits on; alone it is ended after 2 s."""
    barrier = tmp_path / "barrier"
    policy = with_policy(node_silent=0.3, node_grace=SHORT_GRACE, unattended="continue")
    run = make_gang(WAITING, policy=policy, env={"FAKE_BARRIER": str(barrier)})
    up(run.start())
    run.wait("running")
    for identity in (run.held("alpha", "holder"), run.agent("alpha")):
        kill(identity)
    run.wait("lead_lost", node="beta")
    if back:
        run.start_agent("alpha")
        wait_until(lambda: last_said(run, "lead_lost", "lead_back") == "lead_back", 40, "the lead to be back")
    go(run)
    if not back:
        assert run.wait("signalled", node="beta").fields["signal"] == "SIGKILL"
        return
    over = run.wait("rank_exited", node="beta").time + 1.5 * TOLD_LIMIT
    beats = run.node("beta").heartbeat
    wait_until(
        lambda: read_json(beats)["t"] > over, 40, "beta's agent, past the time that torchrun has alone"
    )
    assert run.held("beta", "torchrun") is not None
    barrier.touch()
    assert run.finished()["state"] == "SUCCEEDED"
    assert not run.events("signalled", node="beta")


def test_a_machine_that_was_frozen_blames_no_node_for_silence(make_gang: Maker) -> None:
    """Both agents are stalled for longer than launch.node_grace: each one's gap is its own."""
    run = up(make_gang(WAITING, policy=with_policy(node_silent=1.0, node_grace=SHORT_GRACE)).start())
    run.wait("running")
    freeze([agent for name in run.names if (agent := run.agent(name)) is not None], 2 * SHORT_GRACE)
    go(run)
    assert run.finished()["state"] == "SUCCEEDED"
    assert not run.events("node_lost")
    assert not run.events("lead_lost", node="beta")
    assert all(run.events("agent_paused", node=name) for name in run.names)
