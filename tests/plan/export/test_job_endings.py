"""How an exported job ends, without Slurm: the script and its ranks are real, srun and scontrol stand in."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.values.machines import config, node, plan
from support.waiting import wait_until
from torchdeck.config.machines.slurm import Slurm
from torchdeck.plan.export.sbatch_script import export_sbatch
from torchdeck.runs.follower import read_run
from torchdeck.runs.run_state import RunState
from torchdeck.runs.view import RunView
from torchdeck.use_cases.elsewhere.job import attach_job

pytestmark = pytest.mark.processes

TORCHRUN = """\
import os, signal, subprocess, sys
words = sys.argv[sys.argv.index("--no-python") + 1 :]
rank = subprocess.Popen(words, env={**os.environ, "RANK": "0"}, start_new_session=True)
asked = []
signal.signal(signal.SIGTERM, lambda *_: (asked.append(1), os.killpg(rank.pid, signal.SIGTERM)))
sys.exit(1 if rank.wait() or asked else 0)
"""
"""What torchrun does for a script's one rank."""
TOOLS = {
    "srun": '#!/bin/sh\nwhile [ "$1" != /bin/sh ]; do shift; done\nexec "$@"\n',
    "scontrol": '#!/bin/sh\necho "$@" >>"$ASKED"\n',
    "python": '#!/bin/sh\n[ "$2" != torch.distributed.run ] || set -- "$0.py" "$@"\n'
    f'exec {sys.executable} "$@"\n',
    "python.py": TORCHRUN,
}
WAITS = """\
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), sys.exit(3)))
print("begun", flush=True)
time.sleep(30)
"""


@contextmanager
def job(
    folder: Path,
    program: str,
    slurm: Slurm | None = None,
    launcher: str = "torchrun",
    checkpoints: Path | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """The script of `program` while it runs; its run directory is `run` in `folder`."""
    (folder / "x.py").write_text(program)
    made = plan(
        config({"script": str(folder / "x.py"), "working_dir": str(folder), "launcher": launcher}),
        node(cores=1),
    )
    if checkpoints:
        made = dataclasses.replace(
            made, checkpoint=dataclasses.replace(made.checkpoint, directory=str(checkpoints))
        )
    script = folder / "job.sh"
    script.write_text(export_sbatch(made, slurm))
    tools = folder / "bin"
    tools.mkdir()
    for name, text in TOOLS.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHON": str(tools / "python"),
        "ASKED": str(folder / "asked"),
        "RUN_DIR": str(folder / "run"),
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NODELIST": "n",
        "SLURM_NODEID": "0",
        "SLURMD_NODENAME": "n",
    }
    words = ["/bin/sh", str(script)]
    with subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True, cwd=folder) as started:
        yield started
        if started.poll() is None:
            started.kill()


def interrupted(
    folder: Path, number: signal.Signals, slurm: Slurm, launcher: str = "torchrun"
) -> tuple[int, str, RunView]:
    """The exit code of a job that is signalled while its rank works, its last words, and its run."""
    with job(folder, WAITS, slurm, launcher) as started:
        printed = folder / "run/attempts/1/ranks/0/stdout.log"
        wait_until(lambda: printed.exists() and "begun" in printed.read_text(), 60, "the rank to work")
        started.send_signal(number)
        _, words = started.communicate(timeout=20)
    assert "saved" in printed.read_text()
    return started.returncode, words, read_run(attach_job(folder / "run"))


def test_a_failed_rank_is_named(tmp_path: Path) -> None:
    with job(tmp_path, 'import sys; print("at work"); sys.exit("no such data")') as started:
        _, words = started.communicate(timeout=60)
    assert started.returncode == 1
    assert "no such data" in words
    view = read_run(attach_job(tmp_path / "run"))
    assert (view.state, view.job, view.needs_controller) == (RunState.FAILED, "7", False)
    assert view.why == "rank 0 failed first: exit code 1 after printing: no such data"
    assert view.first_failure is not None
    assert (view.first_failure.rank, view.first_failure.code) == (0, 1)
    printed = tmp_path / "run/attempts/1/ranks/0/stdout.log"
    assert printed.read_text() == "at work\n"


def test_a_job_that_fails_before_its_ranks_is_failed(tmp_path: Path) -> None:
    """As one does whose checkpoints are all damaged; else a requeued job would wait for a start for ever."""
    saved = tmp_path / "run/checkpoints/step_00000001"
    saved.mkdir(parents=True)
    (saved / "manifest.json").write_text("{")
    with job(tmp_path, "") as started:
        started.communicate(timeout=60)
    assert started.returncode == 4
    view = read_run(attach_job(tmp_path / "run"))
    assert view.state is RunState.FAILED
    assert view.why == "the job failed before its ranks started; its output says why"


def test_a_script_that_continues_by_itself_is_requeued_at_the_time_limit(tmp_path: Path) -> None:
    """It gets SIGTERM, and may end with any code then."""
    code, _, view = interrupted(tmp_path, signal.SIGUSR1, Slurm(requeue="always"))
    assert (code, view.state) == (0, RunState.RESTARTING)
    assert view.why == "requeued: the job waits for Slurm to start it again"
    assert "requeue 7" in (tmp_path / "asked").read_text()


def test_a_job_that_would_get_no_further_is_not_requeued(tmp_path: Path) -> None:
    code, words, view = interrupted(tmp_path, signal.SIGUSR1, Slurm())
    assert (code, view.state, view.why) == (75, RunState.CANCELLED, "the time limit is reached")
    assert "saved no checkpoint" in words
    assert "requeue" not in (tmp_path / "asked").read_text()


@pytest.mark.parametrize(("saver", "requeued"), [("another", False), ("mine", True)])
def test_a_checkpoint_of_another_run_in_a_shared_folder_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saver: str, *, requeued: bool
) -> None:
    monkeypatch.setenv("RUN_ID", "mine")
    shared = tmp_path / "shared"
    (shared / "step_00000001").mkdir(parents=True)
    printed = tmp_path / "run/attempts/1/ranks/0/stdout.log"
    with job(tmp_path, WAITS, checkpoints=shared) as started:
        wait_until(lambda: printed.exists() and "begun" in printed.read_text(), 60, "the rank to work")
        (shared / "step_00000001/manifest.json").write_text(f'{{\n "step": 1,\n "run_id": "{saver}"\n}}')
        started.send_signal(signal.SIGUSR1)
        started.communicate(timeout=20)
    assert started.returncode == (0 if requeued else 75)
    journal = (tmp_path / "run/nodes/slurm/journal.jsonl").read_text()
    assert ('"event": "checkpoint"' in journal) is requeued


@pytest.mark.parametrize("launcher", ["torchrun", "python"])
def test_a_cancelled_job_is_not_requeued(tmp_path: Path, launcher: str) -> None:
    code, _, view = interrupted(tmp_path, signal.SIGTERM, Slurm(requeue="always"), launcher)
    assert (code, view.state, view.why) == (75, RunState.CANCELLED, "stop requested")
    assert "requeue" not in (tmp_path / "asked").read_text()
