"""Agents of several nodes as one gang, on real processes; torchrun is played by a quick stand-in."""

from __future__ import annotations

from pathlib import Path

from support.agents.agent_run import with_policy
from support.agents.agent_scripts import kill
from support.agents.gang_run import gone_within
from support.agents.gang_scripts import COOPERATIVE, END_LIMIT, WAITING, Maker, go, up
from support.waiting import wait_until
from torchdeck.contract.atomic import read_json
from torchdeck.contract.plan.launch_plan import LaunchPlan


def test_a_run_on_three_nodes(make_gang: Maker) -> None:
    """Uneven nodes: each has its own journal, plan and ranks; only the leader tells how the run ended."""
    run = make_gang("import os; print('on', os.environ['TORCHDECK_NODE'])", nprocs=(2, 1, 1)).start()
    assert run.finished()["state"] == "SUCCEEDED"
    assert [run.stdout(rank).split()[-1] for rank in range(4)] == ["alpha", "alpha", "beta", "gamma"]
    port = run.wait("launching").fields["port"]
    for name in run.names:
        attempt = run.layouts[name].attempt(1)
        path = attempt.plan if name == "alpha" else attempt.node(name).plan
        plan = LaunchPlan.from_json(read_json(path))
        assert str(port) in plan.node(name).torchrun
        assert plan.node(name).env["TORCHDECK_RUN_DIR"] == str(run.layouts[name].root)
        assert run.events("attempt_started", node=name)[0].fields["port"] == port
    for name in run.names[1:]:
        assert run.events(node=name)[-1].name == "node_finished"
        assert not run.events("finished", node=name)


def test_a_failure_on_a_follower_ends_everything(make_gang: Maker) -> None:
    """Rank 2 on the second node raises: it is named with its words, and nothing is left anywhere."""
    run = make_gang(
        """
        import os, time
        print("up", flush=True)
        if os.environ["RANK"] == "2":
            time.sleep(0.3)
            raise ValueError("the rank's own words")
        time.sleep(60)
        """,
        nprocs=(2, 1, 1),
    ).start()
    assert "rank 2 failed first: ValueError: the rank's own words" in run.finished(30)["why"]
    failure = run.wait("attempt_ended").fields["first_failure"]
    assert failure["traceback"].endswith("ValueError: the rank's own words")
    assert 0 < failure["error"] < 1.0, "the time is a follower's, so it has an error"


def test_the_gang_starts_again_as_a_whole(make_gang: Maker) -> None:
    """A rank of the second node fails once: a second attempt on every node, on another port."""
    run = make_gang(
        "import os, sys; sys.exit(3 if os.environ['TORCHDECK_ATTEMPT'] + os.environ['RANK'] == '11' else 0)",
        policy=with_policy(max_restarts=1),
    ).start()
    assert run.finished()["state"] == "SUCCEEDED"
    for name in run.names:
        assert [event.fields["attempt"] for event in run.events("attempt_started", node=name)] == [1, 2]
    assert [event.fields["reason"] for event in run.events("launching")] == ["first", "restart"]


def test_a_stop_reaches_all_nodes(make_gang: Maker) -> None:
    """A script's ranks get SIGTERM on both."""
    run = up(make_gang(WAITING).start())
    run.request("stop")
    assert run.finished()["state"] == "CANCELLED"
    for name in run.names:
        assert run.events("signalled", node=name)[0].fields == {"signal": "SIGTERM", "count": 1}


def test_a_recipe_is_asked_by_rank_0s_node(make_gang: Maker) -> None:
    """The stop file lies where rank 0 looks; all ranks save, and no one is signalled."""
    run = make_gang(COOPERATIVE, policy=with_policy(cooperative_stop=True)).start()
    run.wait("running")
    progress = run.layouts["beta"].attempt(1).rank(1).progress
    wait_until(progress.exists, 60, "the other rank to train: what has not begun is not begun any more")
    run.request("stop")
    assert run.finished()["state"] == "CANCELLED"
    assert all("saved" in run.stdout(rank) for rank in (0, 1))
    assert not any(run.events("signalled", node=name) for name in run.names)


def test_a_dead_torchrun_ends_the_gang(make_gang: Maker) -> None:
    """kill -9 of a follower's torchrun and shim: nothing is left on either node, in time."""
    run = up(make_gang(WAITING).start())
    for what in ("holder", "torchrun"):
        kill(run.held("beta", what))
    gone_within(run, END_LIMIT)
    assert run.finished()["state"] == "FAILED"


def test_a_device_that_is_taken_on_one_node_refuses_the_run(make_gang: Maker, tmp_path: Path) -> None:
    """All devices on all nodes, or none on any: whose it is, is said, and the others are given back."""
    first = make_gang(WAITING, devices=("GPU-1",))
    up(first.start())
    second = make_gang("print('never')", devices=("GPU-1",))
    # the second run's follower shares the first one's home, and with it its leases
    leases = second.layouts["beta"].root.parents[1] / "leases"
    leases.symlink_to(first.layouts["beta"].root.parents[1] / "leases")
    finished = second.start().finished()
    assert finished["state"] == "FAILED"
    assert first.run_id in finished["why"]
    assert not second.events("launching")
    go(first)
    assert first.finished()["state"] == "SUCCEEDED"


def test_another_life_begins_on_all_nodes(make_gang: Maker) -> None:
    """A finished run is resumed: attempts are numbered on, also by a node that missed the last end."""
    run = make_gang("import sys, os; sys.exit(int(os.environ['TORCHDECK_ATTEMPT'] == '1'))").start()
    assert run.finished()["state"] == "FAILED"
    journal = run.node("beta").journal
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:-1]))  # no node_finished
    run.start(session=1)
    run.wait("finished", count=2)
    assert run.finished()["state"] == "FAILED"
    assert run.events("finished")[-1].fields["state"] == "SUCCEEDED"
    for name in run.names:
        assert [event.fields["attempt"] for event in run.events("attempt_started", node=name)] == [1, 2]
