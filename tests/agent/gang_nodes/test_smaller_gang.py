"""A gang that continues without a node."""

from __future__ import annotations

import dataclasses

from support.agents.agent_run import with_policy
from support.agents.gang_scripts import SHORT_GRACE, WAITING, Maker, go, up_through_a_proxy
from torchdeck.contract.atomic import read_json
from torchdeck.contract.plan.launch_plan import LaunchPlan, SmallerSize
from torchdeck.contract.processes import ProcessIdentity


def shrinking(plan: LaunchPlan) -> LaunchPlan:
    """The plan, which one node alone may carry out as well."""
    return dataclasses.replace(plan, smaller=(SmallerSize(1, 1, None, 1, {}),))


def test_a_lost_node_is_left_out_where_the_run_may_shrink(make_gang: Maker) -> None:
    """Cut for good: the next attempt is of the leading node alone, and the other one departs."""
    run = make_gang(WAITING, change=shrinking, policy=with_policy(node_silent=0.3, node_grace=SHORT_GRACE))
    with up_through_a_proxy(run) as proxy:
        run.wait("running")
        proxy.cut()
        run.wait_stdout("up", 0, attempt=2)
        go(run)
        finished = run.finished()
    assert (finished["state"], finished["why"]) == ("SUCCEEDED", "all ranks finished, 1 in place of 2")
    assert run.wait("restarting").fields["suspect"] == {"node": "beta", "local_rank": None}
    assert [event.fields["nodes"] for event in run.events("launching")] == [["alpha", "beta"], ["alpha"]]


def test_a_left_out_node_ends_what_goes_on_there_when_it_is_back(make_gang: Maker) -> None:
    """launch.unattended = "continue" holds while no one is heard: the others have gone on without it since.

    What it ends on this machine is the other node's, too; test_run_unled has a host for each.
    """
    policy = with_policy(node_silent=0.3, node_grace=SHORT_GRACE, unattended="continue")
    run = make_gang(WAITING, change=shrinking, policy=policy)
    with up_through_a_proxy(run) as proxy:
        run.wait("running")
        proxy.cut()
        run.wait("lead_lost", node="beta")
        run.wait_stdout("up", 0, attempt=2)
        left = [ProcessIdentity.of(pid) for pid in run.ranks("beta")]
        assert all(rank is not None and rank.is_alive() for rank in left), run.describe()
        proxy.heal()
        run.wait("node_finished", node="beta")
        assert not any(rank is not None and rank.is_alive() for rank in left), run.describe()
    names = [event.name for event in run.events(node="beta")]
    told = names[names.index("lead_lost") + 1 :]
    assert told[0] == "lead_back"
    # on a busy machine the leader may be silent for a moment at any time
    assert [name for name in told if name not in ("lead_silent", "lead_back")] == [
        "signalled", "rank_exited", "attempt_over", "node_finished"
    ]  # fmt: skip


def test_a_lead_that_is_left_out_leads_on(make_gang: Maker) -> None:
    """Its rank fails for good: the other node continues alone, and the leader tells how it ended."""
    run = make_gang(
        """
        import os, signal, time
        from pathlib import Path
        if os.environ.get("TORCHDECK_NODE") == "alpha":
            while not Path("beta runs").exists():  # what has not begun by then would not begin any more
                time.sleep(0.02)
            os.kill(os.getpid(), signal.SIGKILL)
        Path("beta runs").touch()
        if os.environ["TORCHDECK_ATTEMPT"] == "1":
            time.sleep(60)
        """,
        change=shrinking,
    ).start()
    finished = run.finished()
    assert (finished["state"], finished["why"]) == ("SUCCEEDED", "all ranks finished, 1 in place of 2")
    assert [event.fields["attempt"] for event in run.events("attempt_started", node="beta")] == [1, 2]
    assert [event.fields["attempt"] for event in run.events("attempt_started")] == [1]
    plan = LaunchPlan.from_json(read_json(run.layouts["alpha"].attempt(2).plan))
    assert [node.name for node in plan.nodes] == ["beta"]
