"""A gang that goes on without a node."""

from __future__ import annotations

import dataclasses

from support.agent_run import with_policy
from support.gang_scripts import WAITING, Maker, go, up_through_a_proxy
from torchdeck.plan.launch_plan import LaunchPlan, SmallerSize
from torchdeck.rundir.atomic import read_json


def shrinking(plan: LaunchPlan) -> LaunchPlan:
    """The plan, which one node alone may carry out as well."""
    return dataclasses.replace(plan, smaller=(SmallerSize(1, 1, None, 1, {}),))


def test_a_lost_node_is_left_out_where_the_run_may_shrink(make_gang: Maker) -> None:
    """Cut for good: the next attempt is of the leading node alone, and the other one departs."""
    run = make_gang(WAITING, change=shrinking, policy=with_policy(node_silent=0.3, node_grace=1.5))
    with up_through_a_proxy(run) as proxy:
        run.wait("running")
        proxy.cut()
        run.wait_stdout("up", 0, attempt=2)
        go(run)
        finished = run.finished()
    assert (finished["state"], finished["why"]) == ("SUCCEEDED", "all ranks finished, 1 in place of 2")
    assert run.wait("restarting").fields["suspect"] == {"node": "beta", "local_rank": None}
    assert [event.fields["nodes"] for event in run.events("launching")] == [["alpha", "beta"], ["alpha"]]


def test_a_lead_that_is_left_out_leads_on(make_gang: Maker) -> None:
    """Its rank fails for good: the other node goes on alone, and the lead tells how it ended."""
    run = make_gang(
        """
        import os, signal, time
        if os.environ.get("TORCHDECK_NODE") == "alpha":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.5)
        """,
        change=shrinking,
    ).start()
    finished = run.finished()
    assert (finished["state"], finished["why"]) == ("SUCCEEDED", "all ranks finished, 1 in place of 2")
    assert [event.fields["attempt"] for event in run.events("attempt_started", node="beta")] == [1, 2]
    assert [event.fields["attempt"] for event in run.events("attempt_started")] == [1]
    plan = LaunchPlan.from_json(read_json(run.layouts["alpha"].attempt(2).plan))
    assert [node.name for node in plan.nodes] == ["beta"]
