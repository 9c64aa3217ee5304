"""The connection between two nodes is cut, for a while or for good."""

from __future__ import annotations

import re

from support.agents.agent_run import with_policy
from support.agents.gang_run import gone_within
from support.agents.gang_scripts import END_LIMIT, SHORT_GRACE, WAITING, Maker, go, up, up_through_a_proxy


def test_a_link_that_is_cut_for_a_while_changes_nothing(make_gang: Maker) -> None:
    """The node is flagged and comes back; the run ends well, and what happened meanwhile is known."""
    run = make_gang(WAITING, policy=with_policy(node_silent=0.5, node_grace=60.0))
    with up_through_a_proxy(run) as proxy:
        run.wait("running")
        proxy.cut()
        assert run.wait("node_silent").fields["node"] == "beta"
        go(run)
        run.wait("rank_exited", node="beta")
        proxy.heal()
        assert run.finished()["state"] == "SUCCEEDED"
    assert run.events("node_back")
    assert not run.events("node_lost")


def test_a_node_that_is_cut_for_good_is_given_up(make_gang: Maker) -> None:
    """After node_grace the leader continues as if it were gone, and the node ends its ranks by itself."""
    run = make_gang(WAITING, policy=with_policy(node_silent=0.5, node_grace=SHORT_GRACE))
    with up_through_a_proxy(run) as proxy:
        proxy.cut()
        run.wait("node_lost")
        gone_within(run, END_LIMIT)
        finished = run.finished(30)
    assert finished["state"] == "FAILED"
    said = re.search(r"node beta has not answered for (\d+) s; its rank 1 is gone", finished["why"])
    assert said is not None, finished["why"]
    assert int(said[1]) >= int(SHORT_GRACE)
    assert run.events("lead_lost", node="beta")
    assert run.events(node="beta")[-1].name == "node_finished"


def test_a_node_that_is_cut_for_long_takes_part_again(make_gang: Maker) -> None:
    """Both sides have given each other up and wait, without a controller; one restart is used up, no more."""
    run = make_gang(WAITING, policy=with_policy(node_silent=0.5, node_grace=SHORT_GRACE, max_restarts=1))
    with up_through_a_proxy(run) as proxy:
        proxy.cut()
        run.wait("restarting", count=2)  # two graces later
        proxy.heal()
        up(run, attempt=run.wait("launching", count=2).fields["attempt"])
        go(run)
        assert run.finished()["state"] == "SUCCEEDED"
    reasons = [event.fields["reason"] for event in run.events("restarting")]
    assert reasons == ["restart"] + ["never_ran"] * (len(reasons) - 1)
    assert not run.events("node_finished", node="beta")[:-1]
