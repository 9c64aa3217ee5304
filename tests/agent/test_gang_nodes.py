"""Agents of several nodes as one gang, on real processes; torchrun is played by a quick stand-in."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.agent_run import script, with_policy
from support.checkpoint_files import save_of
from support.cut_proxy import CutProxy
from support.gang_run import GangRun, cleaning_gangs, gone_within, make_gang_plan
from support.waiting import wait_until
from torchdeck.agent.node import TOLD_LIMIT
from torchdeck.plan.launch_plan import LaunchPlan, SmallerSize
from torchdeck.rundir.atomic import read_json
from torchdeck.rundir.processes import ProcessIdentity

Maker = Callable[..., GangRun]
END_LIMIT = 10.0
"""Seconds in which a failure anywhere ends everything everywhere."""

WAITING = """
import os, time
from pathlib import Path
print("up", os.environ["RANK"], flush=True)
while not Path("go").exists():
    time.sleep(0.02)
"""

COOPERATIVE = """
import os, time
from pathlib import Path
from torchdeck.telemetry.progress import ProgressFile
attempt = Path(os.environ["TORCHDECK_RUN_DIR"]) / "attempts" / os.environ["TORCHDECK_ATTEMPT"]
progress = ProgressFile(attempt / "ranks" / os.environ["RANK"] / "progress")
shared = Path("asked")
step = 0
while not shared.exists():
    step += 1
    progress.report("training", step, total=10**6, slow_step=0.05)
    if os.environ["RANK"] == "0" and (attempt / "stop").exists():
        shared.touch()
    time.sleep(0.05)
progress.report("stopping", step)
print("saved", flush=True)
"""


@pytest.fixture
def make_gang(tmp_path: Path) -> Iterator[Maker]:
    """Makes a run of a script's text on several nodes; keywords are `make_gang_plan`'s."""
    runs: list[GangRun] = []

    def make(text: str, secrets: dict[str, str] | None = None, **plan: Any) -> GangRun:
        folder = tmp_path / f"code {len(runs)}"
        folder.mkdir()
        change = plan.pop("change", lambda made: made)
        made = make_gang_plan(script(folder, text), folder, secrets=tuple(secrets or ()), **plan)
        run = GangRun(tmp_path / f"homes {len(runs)}", change(made), secrets)
        runs.append(run)
        return run

    with cleaning_gangs(runs):
        yield make


def go(run: GangRun) -> None:
    """The ranks may end."""
    (Path(run.plan.nodes[0].working_dir) / "go").touch()


def up(run: GangRun, attempt: int = 1) -> GangRun:
    """Every rank runs."""
    for rank in range(run.plan.world_size):
        run.wait_stdout("up", rank, attempt=attempt)
    return run


def wait_for_another(run: GangRun, name: str, before: ProcessIdentity | None) -> None:
    """Another agent than `before` supervises a node."""
    wait_until(lambda: run.agent(name) not in (None, before), 15, f"another agent on {name}")


def test_a_run_on_three_nodes(make_gang: Maker) -> None:
    """Uneven nodes: each has its own journal, plan and ranks; only the lead tells how the run ended."""
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
    """The stop file lies where rank 0 looks; all ranks save, and nobody is signalled."""
    run = make_gang(COOPERATIVE, policy=with_policy(cooperative_stop=True)).start()
    run.wait("running")
    run.request("stop")
    assert run.finished()["state"] == "CANCELLED"
    assert all("saved" in run.stdout(rank) for rank in (0, 1))
    assert not any(run.events("signalled", node=name) for name in run.names)


@pytest.mark.parametrize("names", [("alpha",), ("beta",), ("alpha", "beta")])
def test_agents_are_killed_and_the_run_goes_on(make_gang: Maker, names: tuple[str, ...]) -> None:
    """kill -9 of the lead's agent, a follower's, both: each is started again and knows where the run was."""
    run = up(make_gang(WAITING).start())
    run.wait("running")
    before = {name: run.agent(name) for name in names}
    for identity in before.values():
        assert identity is not None
        identity.send(signal.SIGKILL)
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
    lead = run.agent("alpha")
    assert lead is not None
    lead.send(signal.SIGKILL)
    wait_until(lambda: not lead.is_alive(), 5, "the lead's agent to end")
    run.start_agent("alpha")  # as the controller does, where there is no holder yet
    up(run)
    go(run)
    assert run.finished()["state"] == "SUCCEEDED"
    assert len(run.events("launching")) == 1
    for name in run.names:
        assert len(run.events("attempt_started", node=name)) == 1


def test_a_dead_torchrun_ends_the_gang(make_gang: Maker) -> None:
    """kill -9 of a follower's torchrun and holder: nothing is left on either node, in time."""
    run = up(make_gang(WAITING).start())
    for what in ("holder", "torchrun"):
        identity = run.held("beta", what)
        assert identity is not None
        identity.send(signal.SIGKILL)
    gone_within(run, END_LIMIT)
    assert run.finished()["state"] == "FAILED"


def test_a_link_that_is_cut_for_a_while_changes_nothing(make_gang: Maker) -> None:
    """The node is flagged and comes back; the run ends well, and what happened meanwhile is known."""
    run = make_gang(WAITING, policy=with_policy(node_silent=0.5, node_grace=60.0))
    run.start_agent("alpha")
    fields = run.wait("listening").fields
    with CutProxy((fields["address"], fields["port"])) as proxy:
        run.start_followers(through=proxy.address)
        up(run)
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
    """After node_grace the lead goes on as if it were gone, and the node ends its ranks by itself."""
    run = make_gang(WAITING, policy=with_policy(node_silent=0.5, node_grace=2.0))
    run.start_agent("alpha")
    fields = run.wait("listening").fields
    with CutProxy((fields["address"], fields["port"])) as proxy:
        run.start_followers(through=proxy.address)
        up(run)
        proxy.cut()
        begun = time.monotonic()
        run.wait("node_lost")
        gone_within(run, END_LIMIT)
        assert time.monotonic() - begun < 2.0 + END_LIMIT
        finished = run.finished(30)
    assert finished["state"] == "FAILED"
    assert "node beta has been silent for 2 s" in finished["why"]
    assert run.events("lead_lost", node="beta")
    assert run.events(node="beta")[-1].name == "node_finished"


def test_unattended_ranks_go_on_to_their_end(make_gang: Maker) -> None:
    """launch.unattended = "continue": with the leading node gone for good, ranks come to their end."""
    run = make_gang(WAITING, policy=with_policy(node_silent=0.3, node_grace=1.0, unattended="continue"))
    up(run.start())
    run.wait("running")
    for identity in (run.held("alpha", "holder"), run.agent("alpha")):
        assert identity is not None
        identity.send(signal.SIGKILL)
    run.wait("lead_lost", node="beta")
    assert not run.events("signalled", node="beta")
    go(run)
    run.wait("node_finished", node="beta")
    assert run.events("rank_exited", node="beta")[0].fields["code"] == 0


@pytest.mark.parametrize("back", [True, False])
def test_torchrun_waits_for_other_ranks_while_there_is_a_lead(
    make_gang: Maker, tmp_path: Path, *, back: bool
) -> None:
    """Its own ranks have ended. With a lead that came back it waits on; alone it is ended after 2 s."""
    barrier = tmp_path / "barrier"
    policy = with_policy(node_silent=0.3, node_grace=1.0, unattended="continue")
    run = make_gang(WAITING, policy=policy, env={"FAKE_BARRIER": str(barrier)})
    up(run.start())
    run.wait("running")
    for identity in (run.held("alpha", "holder"), run.agent("alpha")):
        assert identity is not None
        identity.send(signal.SIGKILL)
    run.wait("lead_lost", node="beta")
    if back:
        run.start_agent("alpha")
        run.wait("lead_back", node="beta")
    go(run)
    if not back:
        assert run.wait("signalled", node="beta").fields["signal"] == "SIGKILL"
        return
    run.wait("rank_exited", node="beta")
    until = time.monotonic() + 2 * TOLD_LIMIT
    wait_until(lambda: time.monotonic() > until, 3 * TOLD_LIMIT, "the time that torchrun has alone")
    assert run.held("beta", "torchrun") is not None
    barrier.touch()
    assert run.finished()["state"] == "SUCCEEDED"
    assert not run.events("signalled", node="beta")


def test_who_does_not_hold_the_token_is_turned_away(make_gang: Maker) -> None:
    """An agent with another token never takes part; the one with the right one does."""
    run = make_gang("print('ok')")
    run.start_agent("alpha")
    fields = run.wait("listening").fields
    run.lead_address = (fields["address"], fields["port"])
    stranger = run.start_agent("beta", token="another")  # noqa: S106 - of a test
    log = run.node("beta").log
    wait_until(lambda: "does not hold the token" in log.read_text(), 20, "the stranger to be turned away")
    assert not run.events("node_joined")
    stranger.kill()
    stranger.wait(10)
    run.start_agent("beta")
    assert run.finished()["state"] == "SUCCEEDED"


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


def test_secrets_reach_the_ranks_and_nothing_else(make_gang: Maker) -> None:
    """A canary is in the environment of ranks and torchrun alone: in no file, argv, agent or holder."""
    canary = "canary-" + os.urandom(8).hex()
    run = make_gang(
        "import hashlib, os; print('sha', hashlib.sha256(os.environ['THE_KEY'].encode()).hexdigest())\n"
        + WAITING,
        secrets={"THE_KEY": canary},
    )
    up(run.start())
    agent = run.agent("beta")
    assert agent is not None
    agent.send(signal.SIGKILL)  # the holder hands it on to the next one
    wait_for_another(run, "beta", agent)
    assert hashlib.sha256(canary.encode()).hexdigest() in run.stdout(1)
    needle = canary.encode()
    for name in run.names:
        for path in run.layouts[name].root.rglob("*"):
            assert not path.is_file() or needle not in path.read_bytes(), path
        for process in (run.agent(name), run.held(name, "holder")):
            assert process is not None
            assert needle not in Path(f"/proc/{process.pid}/environ").read_bytes()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert needle not in path.read_bytes() or path.parent.name == str(os.getpid())
        except (FileNotFoundError, ProcessLookupError):
            continue
    go(run)
    assert run.finished()["state"] == "SUCCEEDED"


def test_a_secret_that_nobody_has_is_named(make_gang: Maker) -> None:
    """The run does not start without it."""
    run = make_gang("print('never')", secrets={"THE_KEY": "value"})
    run.secrets = {}
    finished = run.start().finished()
    assert finished["state"] == "FAILED"
    assert "THE_KEY has no value here" in finished["why"]


def checkpoints(run: GangRun, name: str, *steps: int) -> None:
    """Sound checkpoints of the run on a node's own disk."""
    for step in steps:
        save_of(run.layouts[name].checkpoints, step, run.run_id, node=name)


def test_nodes_resume_from_the_newest_that_each_has(make_gang: Maker) -> None:
    """On disks of their own: the newest of one node lacks its part on the other, the one before is taken."""
    run = make_gang("import os; print('resume', os.environ['TORCHDECK_RESUME'])")
    checkpoints(run, "alpha", 3, 5)
    checkpoints(run, "beta", 3)
    assert run.start().finished()["state"] == "SUCCEEDED"
    assert run.wait("launching").fields["resume"] == {"source": "own", "name": "step_00000003", "step": 3}
    for rank, name in enumerate(run.names):
        folder = run.layouts[name].checkpoints / "step_00000003"
        assert run.stdout(rank) == f"resume {folder}\n"
        assert run.events("attempt_started", node=name)[0].fields["resume_step"] == 3


def test_a_node_without_its_part_refuses_the_start(make_gang: Maker) -> None:
    """With who has what, and nothing is started anywhere."""
    run = make_gang("print('never')")
    checkpoints(run, "alpha", 3)
    finished = run.start().finished()
    assert finished["state"] == "FAILED"
    assert "alpha has step_00000003; beta has none" in finished["why"]
    assert not any(run.events("attempt_started", node=name) for name in run.names)


def shrinking(plan: LaunchPlan) -> LaunchPlan:
    """The plan, which one node alone may carry out as well."""
    return dataclasses.replace(plan, smaller=(SmallerSize(1, 1, None, 1, {}),))


def test_a_lost_node_is_left_out_where_the_run_may_shrink(make_gang: Maker) -> None:
    """Cut for good: the next attempt is of the leading node alone, and the other one departs."""
    run = make_gang(WAITING, change=shrinking, policy=with_policy(node_silent=0.3, node_grace=1.5))
    run.start_agent("alpha")
    fields = run.wait("listening").fields
    with CutProxy((fields["address"], fields["port"])) as proxy:
        run.start_followers(through=proxy.address)
        up(run)
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


def test_another_life_begins_on_all_nodes(make_gang: Maker) -> None:
    """A finished run is resumed: attempts are numbered on, also by a node that missed the last end."""
    run = make_gang("import sys, os; sys.exit(int(os.environ['TORCHDECK_ATTEMPT'] == '1'))").start()
    assert run.finished()["state"] == "FAILED"
    journal = run.node("beta").journal
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:-1]))  # no node_finished
    run.start(life=1)
    run.wait("finished", count=2)
    assert run.finished()["state"] == "FAILED"
    assert run.events("finished")[-1].fields["state"] == "SUCCEEDED"
    for name in run.names:
        assert [event.fields["attempt"] for event in run.events("attempt_started", node=name)] == [1, 2]
