"""What ranks do in tests of a gang of several nodes, and what is waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from support.agents.gang_run import GangRun
from support.links.cut_proxy import CutProxy
from support.waiting import wait_until
from torchdeck.contract.processes import ProcessIdentity

Maker = Callable[..., GangRun]
END_LIMIT = 60.0
"""Seconds waited for the end of everything everywhere; `tests/benchmarks refusals` judges the 10 of them."""
SHORT_GRACE = 2.5
"""Seconds of `launch.node_grace` that a test waits out; on a busy machine an agent needs one to be heard."""

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
from torchdeck.contract.metrics.progress import ProgressFile
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


def go(run: GangRun) -> None:
    """The ranks may end."""
    (Path(run.plan.nodes[0].working_dir) / "go").touch()


def up(run: GangRun, attempt: int = 1) -> GangRun:
    """Every rank runs."""
    for rank in range(run.plan.world_size):
        run.wait_stdout("up", rank, attempt=attempt)
    return run


@contextmanager
def up_through_a_proxy(run: GangRun) -> Iterator[CutProxy]:
    """Every rank runs, and what the leader and the others say to each other can be cut."""
    run.start_agent("alpha")
    fields = run.wait("listening").fields
    with CutProxy((fields["address"], fields["port"])) as proxy:
        run.start_followers(through=proxy.address)
        up(run)
        yield proxy


def wait_for_another(run: GangRun, name: str, before: ProcessIdentity | None) -> None:
    """Another agent than `before` supervises a node."""
    wait_until(lambda: run.agent(name) not in (None, before), 15, f"another agent on {name}")
