"""Two nodes on this machine: real agents, real torchrun, DDP over gloo; each process is killed in turn."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agents.agent_run import cleaning, script, with_policy
from support.agents.gang_run import REAL, GangRun, gone_within, make_gang_plan
from support.waiting import wait_until
from torchdeck.contract.processes import ProcessIdentity

pytest.importorskip("torch", reason="torchrun comes with torch")
END_LIMIT = 40.0
"""Seconds waited for the end of everything everywhere, well below what torch.distributed waits.

It is to take 10, which a busy machine does not always keep: `tests/benchmarks refusals` judges that.
"""
TRAINING = """
import datetime, os, time
from pathlib import Path
import torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
step = 0
while True:
    stop = torch.tensor([float(Path("go").exists())])
    dist.all_reduce(stop)
    step += 1
    print("up step", step, flush=True)
    if stop.item():
        break
    time.sleep(0.05)
dist.destroy_process_group()
"""
VICTIMS = (
    "alpha agent", "beta agent", "alpha holder", "beta holder", "alpha torchrun", "beta torchrun",
    "alpha rank holder", "beta rank holder", "alpha rank", "beta rank", "alpha agent+holder",
    "beta agent+holder",
)  # fmt: skip
SURVIVED = ("agent", "holder", "agent+holder")
"""Whose death changes nothing about the ranks."""
SAMPLE = ("alpha torchrun",)
"""What a normal run kills; the others under --soak. For agents and shims it has test_survival.py."""


@pytest.fixture
def gang(tmp_path: Path) -> Iterator[GangRun]:
    """Two ranks on each of two nodes, training."""
    plan = make_gang_plan(
        script(tmp_path, TRAINING), tmp_path, nprocs=(1, 1), torchrun=REAL, policy=with_policy(kill_grace=5.0)
    )
    run = GangRun(tmp_path / "homes", plan)
    with cleaning([run]):
        run.start()
        for rank in (0, 1):
            run.wait_stdout("up step 3", rank, 120)
        yield run


def victims(run: GangRun, what: str) -> list[ProcessIdentity]:
    """The processes that a name of VICTIMS means."""
    node, _, kind = what.partition(" ")
    if kind in ("rank holder", "rank"):
        holder = run.ranks(node)[0]
        pid = holder if kind == "rank holder" else int(_children(holder)[0])
        found = [ProcessIdentity.of(pid)]
    else:
        found = [run.agent(node) if name == "agent" else run.held(node, name) for name in kind.split("+")]
    return [process for process in found if process is not None]


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.mark.parametrize(
    "what", [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.soak) for name in VICTIMS]
)
def test_each_process_is_killed_in_turn(gang: GangRun, what: str) -> None:
    """Agents and shims: the run continues to its end. All else: nothing is left anywhere soon."""
    node, _, kind = what.partition(" ")
    before = gang.agent(node)
    killed = victims(gang, what)
    assert killed
    for process in killed:
        process.send(signal.SIGKILL)
    if kind not in SURVIVED:
        gone_within(gang, END_LIMIT)
        assert gang.finished(30)["state"] == "FAILED"
        return
    if "agent" in kind:
        if "holder" in kind:  # no one on the node can start another: the controller does
            gang.start_agent(node)
        wait_until(lambda: gang.agent(node) not in (None, before), 40, "another agent")
        gang.wait("node_joined", count=2)
    (Path(gang.plan.nodes[0].working_dir) / "go").touch()
    assert gang.finished()["state"] == "SUCCEEDED"
