"""Ending what is left of a run, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid

import pytest

from support.waiting import wait_until
from torchdeck.agent.processes.ending import OrphanCleanup
from torchdeck.contract.processes import RUN_ID_VARIABLE, ProcessIdentity, read_stat

pytestmark = pytest.mark.processes

IGNORING = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
OBEYING = "import time; print('up', flush=True); time.sleep(600)"
PARENT = (
    "import subprocess, sys, time; "
    "p = subprocess.Popen(['/bin/sleep', '600'], env={}, start_new_session=True); "
    "print(p.pid, flush=True); time.sleep(600)"
)


def start(run_id: str, program: str) -> subprocess.Popen[str]:
    env = {**os.environ, RUN_ID_VARIABLE: run_id}
    return subprocess.Popen([sys.executable, "-c", program], env=env, stdout=subprocess.PIPE, text=True)


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    with process.stdout:
        return process.stdout.readline().strip()


def finish(sweep: OrphanCleanup) -> int:
    result = wait_until(
        lambda: [] if (left := sweep.step(time.monotonic())) is None else [left], 20, "the sweep"
    )
    return result[0]


def test_sigterm_first_then_sigkill() -> None:
    """What obeys ends by SIGTERM, what ignores it by SIGKILL after the grace; a longer run id is
    another run."""
    run_id = uuid.uuid4().hex
    obeying, ignoring, other = start(run_id, OBEYING), start(run_id, IGNORING), start(run_id + "0", IGNORING)
    processes = [obeying, ignoring, other]
    try:
        for process in processes:
            first_line(process)
        sweep = OrphanCleanup(run_id, None, 0.5, 10.0, 100.0)
        assert sweep.step(100.0) is None
        assert obeying.wait(20) == -15
        assert sweep.step(100.4) is None
        assert ignoring.poll() is None
        wait_until(lambda: sweep.step(100.5) == 0, 20, "the sweep")
        assert ignoring.wait(20) == -9
        assert sweep.killed == 1
        assert other.poll() is None
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_child_that_hid_its_environment_is_found_under_torchrun() -> None:
    """An empty environment and a session of its own: the tree still leads to it, also once its parent
    is gone."""
    run_id = uuid.uuid4().hex
    parent = start(run_id, PARENT)
    child = int(first_line(parent))
    try:
        identity = ProcessIdentity.of(parent.pid)
        sweep = OrphanCleanup(run_id, identity, 0.0, 10.0, time.monotonic())
        hidden = ProcessIdentity.of(child)
        assert hidden is not None
        assert hidden in sweep.survivors()
        parent.kill()
        parent.wait()
        assert finish(sweep) == 0
        wait_until(
            lambda: (stat := read_stat(child)) is None or stat.state == "Z", 5, "the hidden child to end"
        )
    finally:
        parent.kill()
        parent.wait()


def test_the_sweeper_spares_itself_and_its_parents() -> None:
    """A process that carries the run's id and sweeps it does not kill itself or who started it."""
    run_id = uuid.uuid4().hex
    program = (
        "import sys, time\n"
        f"sys.path[:0] = {sys.path!r}\n"
        "from torchdeck.agent.processes.ending import OrphanCleanup\n"
        f"sweep = OrphanCleanup({run_id!r}, None, 0.0, 5.0, time.monotonic())\n"
        "print('left', sweep.step(time.monotonic()), flush=True)"
    )
    process = start(run_id, program)
    assert first_line(process) == "left 0"
    assert process.wait(10) == 0
