"""What the agent sees of living ranks: who is stalled, and the heartbeat."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any

from support.agents.agent_run import AgentRun, Maker, with_policy
from support.agents.agent_scripts import COOPERATIVE
from support.waiting import wait_for_value, wait_until
from torchdeck.contract.atomic import read_json
from torchdeck.contract.processes import ProcessIdentity


def training(run: AgentRun, rank: int) -> int:
    """The rank's pid, once the heartbeat shows that it trains."""

    def pid() -> int | None:
        found = run.heartbeat().get("ranks", {}).get(str(rank), {})
        return found.get("pid") if found.get("phase") == "training" else None

    return wait_for_value(pid, 20, f"rank {rank} to train")


def test_a_stopped_rank_is_flagged_and_cleared(make_run: Maker) -> None:
    """SIGSTOP of a rank: flagged by rank and phase with what its process does; SIGCONT clears it.

    What is known is in the run directory: of each rank, and the verdict.
    """
    run = make_run(COOPERATIVE, policy=with_policy(cooperative_stop=True, hang_after=1.0)).start()
    run.wait("running")
    pid = training(run, 1)
    os.kill(pid, signal.SIGSTOP)

    def told(name: str) -> list[Mapping[str, Any]]:
        """What is said of that rank; another may are stalled for a second too, where the machine is busy."""
        return [event.fields for event in run.events(name) if event.fields["rank"] == 1]

    what = f"a hang of a stopped rank: {run.describe()}"
    hang = wait_until(lambda: [hang for hang in told("hang") if "SIGSTOP" in hang["detail"]], 30, what)[0]
    assert hang["phase"] == "training"
    assert hang["kind"] == "stopped"
    assert "Rank 1 is stopped (SIGSTOP)" in hang["detail"]
    assert f"kill -CONT {pid}" in hang["detail"]
    folder = run.layout.attempt(1).examination(hang["examination"])
    assert read_json(folder.verdict)["detail"] == hang["detail"]
    assert read_json(folder.rank(1))["state"] == "T"
    assert read_json(folder.rank(0))["pid"] == training(run, 0)
    os.kill(pid, signal.SIGCONT)
    wait_until(lambda: len(told("hang_over")) == len(told("hang")), 30, "the end of its hang")


def test_a_hang_restarts_the_gang_where_the_policy_says_so(make_run: Maker) -> None:
    """on_hang = restart: the hung attempt is ended and another one started, counted as a restart."""
    policy = with_policy(cooperative_stop=True, hang_after=1.0, on_hang="restart", max_restarts=1)
    run = make_run(COOPERATIVE, policy=policy).start()
    run.wait("running")
    pid = training(run, 0)
    os.kill(pid, signal.SIGSTOP)
    assert run.wait("attempt_started", count=2).fields["reason"] == "restart"
    run.request("stop_now")
    assert run.finished()["state"] == "CANCELLED"


def test_the_heartbeat_shows_every_rank(make_run: Maker) -> None:
    """Phase, step, age and pid of each rank; identities of agent, torchrun and shim; free disk and
    memory."""
    run = make_run(COOPERATIVE, policy=with_policy(cooperative_stop=True)).start()
    run.wait("running")
    training(run, 0)
    training(run, 1)
    beat = wait_until(
        lambda: beat if len((beat := run.heartbeat()).get("rss_bytes", {})) == 2 else {}, 10, "memory"
    )
    assert beat["phase"] == "running"
    assert {rank["phase"] for rank in beat["ranks"].values()} == {"training"}
    assert all(rank["step"] > 0 and rank["still"] < 5 and rank["pid"] for rank in beat["ranks"].values())
    assert ProcessIdentity.from_json(beat["agent"]) == run.agent()
    assert ProcessIdentity.from_json(beat["holder"]) == run.holder()
    assert ProcessIdentity.from_json(beat["torchrun"]) == run.torchrun()
    assert beat["disk_free"] > 0
