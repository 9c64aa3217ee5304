"""What a launch costs beside torchrun's own, and what supervision costs while a run continues."""

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.rows import Row
from support.cli.command import COMMAND, Command, agent_events, identity_in, wait_for_event
from torchdeck.contract.atomic import read_json
from torchdeck.contract.journal import read_journal
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.processes import ProcessIdentity, read_stat

PAIRS = 5
IDLE_WINDOW = 20.0
"""Seconds over which idle cost is counted."""
TRIVIAL = """\
import torch, torch.distributed as dist
dist.init_process_group("gloo")
value = torch.ones(1)
dist.all_reduce(value)
assert value.item() == dist.get_world_size()
dist.destroy_process_group()
"""
QUIET = "import threading\nthreading.Event().wait({seconds})\n"


def run() -> list[Row]:
    """Wall time of a trivial two-rank job; processor time of agent, shim and controller in a run."""
    with tempfile.TemporaryDirectory() as folder:
        return [_launch(Path(folder)), _idle(Path(folder))]


def _launch(folder: Path) -> Row:
    """The two in turn, so that what else the machine does hits both."""
    script = folder / "trivial.py"
    script.write_text(TRIVIAL)
    torchdeck = [*COMMAND, "--no-gui", "--script", str(script), "--nproc", "2"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(script)]
    env = {**os.environ, "TORCHDECK_HOME": str(folder / "launch"), "OMP_NUM_THREADS": "1"}
    _seconds(torchdeck, env)  # warms the disk's cache and sends the shipped folder
    ours, theirs = [], []
    for _ in range(PAIRS):
        ours.append(_seconds(torchdeck, env))
        theirs.append(_seconds(torchrun, env))
    return Row(
        name="launch of a trivial two-rank script",
        ours=statistics.median(ours),
        peer=statistics.median(theirs),
        unit="s",
        peer_name="torchrun",
        ratio=statistics.median(a / b for a, b in zip(ours, theirs, strict=True)),
        wanted=1.05,
        lower_is_better=True,
    )


def _seconds(argv: list[str], env: dict[str, str]) -> float:
    start = time.monotonic()
    subprocess.run(argv, env=env, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
    return time.monotonic() - start


def _idle(folder: Path) -> Row:
    """Share of one core, against torchrun's own share in the same run."""
    script = folder / "quiet.py"
    script.write_text(QUIET.format(seconds=600))
    command = Command(folder / "idle")
    with command.start("--no-gui", "--script", script, "--nproc", "2"):
        run = command.the_run()
        wait_for_event(run, "running", 60)
        _settle()
        ours, torchrun = supervisors(run)
        before = [_cpu(process) for process in (*ours, torchrun)]
        threading.Event().wait(IDLE_WINDOW)
        after = [_cpu(process) for process in (*ours, torchrun)]
        command.run("runs", "stop", "--now", run.root.name)
    spent = [(end - start) / IDLE_WINDOW * 100 for start, end in zip(before, after, strict=True)]
    return Row(
        name="agent, holder and controller while a run continues",
        ours=sum(spent[:-1]),
        peer=spent[-1],
        unit="% of a core",
        peer_name="torchrun's own",
        wanted=1.0,
        lower_is_better=True,
        goal_is_absolute=True,
    )


def _settle() -> None:
    """Let the first seconds pass, in which everything looks more often."""
    threading.Event().wait(3.0)


def supervisors(run: RunLayout) -> tuple[list[ProcessIdentity], ProcessIdentity]:
    """(controller, agent, shim), torchrun."""
    held = read_json(run.attempt(1).node("localhost").holder)
    holder, torchrun = (ProcessIdentity.from_json(held[name]) for name in ("holder", "torchrun"))
    assert holder is not None
    assert torchrun is not None
    controller = identity_in(read_journal(run.journal), "controller_started")
    return [controller, identity_in(agent_events(run), "agent_started"), holder], torchrun


def _cpu(process: ProcessIdentity) -> float:
    """Processor seconds of a living process so far."""
    stat = read_stat(process.pid)
    assert stat is not None, f"process {process.pid} ended while its idle cost was counted"
    return stat.cpu_ticks / os.sysconf("SC_CLK_TCK")
