"""A real agent whose gang becomes smaller: leases, plans and a take-over."""

from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path

import pytest

from support.agents.agent_run import AgentRun, cleaning, make_plan, script, with_policy
from support.waiting import wait_for_value, wait_until
from torchdeck.agent.gpus import gone_devices
from torchdeck.agent.leases import Leases, lease_holder
from torchdeck.contract.atomic import read_json
from torchdeck.contract.journal import JournalWriter
from torchdeck.contract.plan.launch_plan import LaunchPlan, RankPlacement, SmallerSize

pytestmark = pytest.mark.processes

GPUS = ("GPU-a", "GPU-b", "GPU-c")
DIES = """
    import os, pathlib, signal, sys, time
    print("device", os.environ["CUDA_VISIBLE_DEVICES"], "rank", os.environ["RANK"], flush=True)
    if os.environ["WORLD_SIZE"] == "3":
        if os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)
    while not pathlib.Path("go").exists():
        time.sleep(0.02)
    """


def elastic_plan(folder: Path, max_restarts: int = 0) -> LaunchPlan:
    plan = make_plan(
        script(folder, DIES),
        folder,
        nproc=3,
        devices=GPUS,
        policy=with_policy(max_restarts=max_restarts),
        env={"CUDA_VISIBLE_DEVICES": ",".join(GPUS)},
    )
    return dataclasses.replace(
        plan,
        ranks=tuple(RankPlacement(rank, "localhost", 0, rank, f"cuda:{rank}") for rank in range(3)),
        smaller=(SmallerSize(1, 2, None, 1, {"localhost": 7}),),
    )


def test_the_failed_ranks_device_is_free_while_the_others_go_on(tmp_path: Path) -> None:
    """The second attempt has a plan of its own; an agent that takes over knows who takes part, and leases."""
    home = tmp_path / "home"
    run = AgentRun(home, elastic_plan(tmp_path))
    with cleaning([run]):
        run.start()
        run.wait("attempt_started", count=2)
        run.wait_stdout("device GPU-a,GPU-c rank 1", rank=1, attempt=2)
        restarting = run.wait("restarting").fields
        assert restarting["reason"] == "smaller"
        assert restarting["suspect"] == {"node": "localhost", "local_rank": 1}
        plan = read_json(run.layout.attempt(2).plan)
        assert (plan["world_size"], plan["nodes"][0]["devices"]) == (2, ["GPU-a", "GPU-c"])
        assert plan["nodes"][0]["env"]["OMP_NUM_THREADS"] == "7"
        assert [rank["device"] for rank in plan["ranks"]] == ["cuda:0", "cuda:2"]

        agent = run.agent()
        assert agent is not None
        agent.send(signal.SIGKILL)
        wait_until(lambda: run.agent() not in (None, agent), 20, "another agent")
        run.wait("agent_started", count=2)
        held = [lease_holder(home / "leases", device) is not None for device in GPUS]
        assert held == [True, False, True]
        wait_until(lambda: sorted(run.heartbeat().get("ranks", {})) == ["0", "1"], 20, "two ranks watched")
        (tmp_path / "go").touch()
        assert run.finished()["state"] == "SUCCEEDED"
        started = run.events("attempt_started")
        assert [event.fields["world_size"] for event in started] == [3, 2]
        assert [event.fields["devices"] for event in started] == [list(GPUS), ["GPU-a", "GPU-c"]]
        assert all(lease_holder(home / "leases", device) is None for device in GPUS)


def test_an_agent_killed_before_the_smaller_start_is_followed_by_one_that_makes_it(tmp_path: Path) -> None:
    """The decision stands in the journal, and nothing has come of it yet."""
    plan = elastic_plan(tmp_path)
    run = AgentRun(tmp_path / "home", dataclasses.replace(plan, policy=with_policy(restart_delay=2.0)))
    with cleaning([run]):
        run.start()
        run.wait("restarting")
        agent = run.agent()
        assert agent is not None
        agent.send(signal.SIGKILL)
        (tmp_path / "go").touch()
        assert run.finished()["why"] == "all ranks finished, 2 in place of 3"
        started = [
            (event.fields["attempt"], event.fields["reason"]) for event in run.events("attempt_started")
        ]
        assert started == [(1, "first"), (2, "smaller")]
        assert len(run.events("restarting")) == 1
        held = [lease_holder(tmp_path / "home" / "leases", device) for device in GPUS]
        assert held == [None, None, None]


def test_a_device_that_is_gone_is_done_without_before_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nvidia-smi lists it no more after the first failure; resumed by hand, the run begins with all again."""
    nvidia_smi(tmp_path, monkeypatch, listing("0, GPU-a", "2, GPU-c"))
    run = AgentRun(tmp_path / "home", elastic_plan(tmp_path, max_restarts=3))
    (tmp_path / "go").touch()
    with cleaning([run]):
        run.start()
        assert run.finished()["state"] == "SUCCEEDED"
        reasons = [event.fields["reason"] for event in run.events("restarting")]
        assert reasons == ["restart", "smaller"]
        told = run.events("restarting")[1].fields
        assert told["why"] == "GPU GPU-b is gone: nvidia-smi no longer lists it"
        assert told["suspect"] == {"node": "localhost", "local_rank": 1}
        assert [event.fields["world_size"] for event in run.events("attempt_started")] == [3, 2]

        nvidia_smi(tmp_path, monkeypatch, listing("0, GPU-a", "1, GPU-b", "2, GPU-c"))
        with JournalWriter(run.layout.journal) as journal:
            journal.append("resumed", finished=1)
        run.start()
        run.wait("finished", count=2)
        assert [event.fields["world_size"] for event in run.events("attempt_started")] == [3, 2, 3, 3, 2]
        assert "it failed twice" in run.events("restarting")[-1].fields["why"]


def test_a_device_that_another_run_took_is_done_without(tmp_path: Path) -> None:
    """While nothing of the run was alive; who is given up is the rank of that device and no other."""
    home = tmp_path / "home"
    run = AgentRun(home, elastic_plan(tmp_path, max_restarts=3))
    (tmp_path / "go").touch()
    run.node.root.mkdir(parents=True)
    with JournalWriter(run.node.journal) as journal:
        journal.append("attempt_started", attempt=1)
        journal.append("attempt_ended", attempt=1, outcome="failed", first_failure=None)
        journal.append("restarting", attempt=1, reason="restart", suspect=None)
    other = Leases(home / "leases", [GPUS[2]], "other", "theirs")
    other.acquire()
    with cleaning([run]):
        run.start()
        assert run.finished()["state"] == "SUCCEEDED"
        told = run.events("restarting")[1].fields
        assert told["why"] == "another run has taken device GPU-c in the meantime"
        assert told["suspect"] == {"node": "localhost", "local_rank": 2}
        started = [
            (event.fields["attempt"], event.fields["world_size"])
            for event in run.events("attempt_started")[1:]
        ]
        assert started == [(3, 2)]
        assert lease_holder(home / "leases", GPUS[2]) is not None
    other.release()


def nvidia_smi(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """A program of that name, first on the PATH."""
    program = folder / "bin" / "nvidia-smi"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def listing(*gpus: str) -> str:
    """Shell that prints the rows of `gpus`, each an index and a UUID."""
    return "; ".join(f"echo '{gpu}, 81559, 81000, 535.1.2, NVIDIA H100'" for gpu in gpus)


def test_devices_that_the_driver_does_not_list_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By UUID or index; where nvidia-smi cannot say, none is."""
    nvidia_smi(tmp_path, monkeypatch, listing("0, GPU-a", "2, GPU-c"))
    assert gone_devices(GPUS) == ["GPU-b"]
    assert gone_devices(["0", "1", "2"]) == ["1"]
    assert gone_devices([]) == []
    nvidia_smi(tmp_path, monkeypatch, "echo 'no devices were found'; exit 6")
    assert gone_devices(GPUS) == []


WAITS = """
    import os, pathlib, sys, time
    import torchdeck
    for step in range(1, 100000):
        torchdeck.log({"loss": 1.0}, step=step)
        if os.environ["WORLD_SIZE"] == "2" and pathlib.Path("go").exists():
            sys.exit(0)
        time.sleep(0.05)
    """


def test_a_rank_that_hangs_is_left_out(tmp_path: Path) -> None:
    """With launch.on_hang = "exclude": one of three is stopped; the next attempt has the others' devices."""
    policy = with_policy(max_restarts=3, on_hang="exclude", hang_after=1.0, kill_grace=1.0)
    plan = elastic_plan(tmp_path)
    node = dataclasses.replace(plan.nodes[0], command=tuple(script(tmp_path, WAITS)))
    run = AgentRun(tmp_path / "home", dataclasses.replace(plan, policy=policy, nodes=(node,)))
    with cleaning([run]):
        run.start()
        run.wait("running")

        def trains() -> int | None:
            found = run.heartbeat().get("ranks", {}).get("1", {})
            return found.get("pid") if found.get("step", 0) > 20 else None

        os.kill(wait_for_value(trains, 20, "steps of rank 1"), signal.SIGSTOP)
        assert run.wait("hang").fields["rank"] == 1
        told = run.wait("restarting").fields
        assert (told["reason"], told["suspect"]) == ("smaller", {"node": "localhost", "local_rank": 1})
        started = run.wait("attempt_started", count=2).fields
        assert (started["world_size"], started["devices"]) == (2, ["GPU-a", "GPU-c"])
        (tmp_path / "go").touch()
        assert run.finished()["state"] == "SUCCEEDED"
