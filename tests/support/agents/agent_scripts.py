"""What ranks do in tests of the agent, and how its processes are killed."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable

from support.waiting import wait_until
from torchdeck.contract.processes import ProcessIdentity

WAITING = """
import os, sys, time
print("up", os.environ["RANK"], os.environ["TORCHDECK_ATTEMPT"])
while True:
    time.sleep(0.05)
"""

COOPERATIVE = """
import os, sys, time
from pathlib import Path
from torchdeck.contract.metrics.progress import ProgressFile
attempt = Path(os.environ["TORCHDECK_RUN_DIR"]) / "attempts" / os.environ["TORCHDECK_ATTEMPT"]
progress = ProgressFile(attempt / "ranks" / os.environ["RANK"] / "progress")
progress.report("starting", 0)
print("up")
step = 0
while not (attempt / "stop").exists():
    step += 1
    progress.report("training", step, total=10**6, slow_step=0.05)
    time.sleep(0.05)
print("saving")
progress.report("stopping", step)
"""


def kill(identity: ProcessIdentity | None) -> None:
    """kill -9 of a process that has to be there."""
    assert identity is not None
    identity.send(signal.SIGKILL)


def kill_and_wait(identity: ProcessIdentity | None) -> None:
    """The same, and it is gone."""
    kill(identity)
    assert identity is not None
    wait_until(lambda: not identity.is_alive(), 5, f"{identity} to end")


def freeze(processes: Iterable[ProcessIdentity], seconds: float) -> None:
    """SIGSTOP to all; SIGCONT after so long to the first one, and a second later to the others."""
    stopped = list(processes)
    for process in reversed(stopped):
        process.send(signal.SIGSTOP)
    try:
        _pass(seconds)
        stopped[0].send(signal.SIGCONT)
        _pass(1.0)
    finally:
        for process in stopped:
            process.send(signal.SIGCONT)


def _pass(seconds: float) -> None:
    until = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() > until, 2 * seconds + 10, "the machine to are stalled")
