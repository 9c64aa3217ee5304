"""Loops that programs write themselves, on packages of other projects: all of it is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.cli.command import Command, agent_events, wait_for_step
from support.system.deepspeed_python import ABSENT as NO_DEEPSPEED
from support.system.deepspeed_python import deepspeed_python
from support.system.trainers_python import ABSENT, trainers_python
from support.training.inside_scripts import ScriptRun, by_hand, ending
from support.training.live_progress import live_progress
from support.training.loop_scripts import DEEPSPEED, DIFFUSERS, FABRIC
from support.values.metrics import opened
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.progress import read_progress
from torchdeck.runs.follower import read_run
from torchdeck.runs.run_state import Failure, RunState
from torchdeck.runs.training_progress import ProgressReader

pytestmark = [pytest.mark.processes, pytest.mark.timeout(480)]  # trainings on two ranks, with their imports

ALL = ("starts", "metrics", "steps", "total and ETA", "checkpoints", "resume", "failure named")


def curve(folder: Path) -> list[str]:
    return (folder / "curve.txt").read_text().splitlines()


def run_file(folder: Path, script: str, python: str, resume_args: list[str], *args: str) -> Path:
    (folder / "train.py").write_text(ending(script))
    path = folder / "run.toml"
    path.write_text(
        f'[run]\nscript = "train.py"\nargs = {list(args)}\nresume_args = {resume_args}\n'
        f'interpreter = "{python}"\n'
        '[run.env]\nDS_ACCELERATOR = "cpu"\nOMP_NUM_THREADS = "1"\n'
        "[distributed]\nnproc = 2\n[launch]\nmax_restarts = 1\n"
    )
    return path


def stopped(command: Command, config: Path, at: int, *words: str) -> tuple[RunLayout, Any]:
    """Start a run, and stop it after a step; it, and its progress while it ran."""
    with command.start("--no-gui", "--trust", config, *words) as front:
        run = command.the_run()
        wait_for_step(run, at, 90)
        live = live_progress(command)
        done = command.run("runs", "stop", run.root.name)
        assert done.returncode == 0, done.stdout + done.stderr
        front.communicate(timeout=60)
    return run, live


def fails_once(command: Command, folder: Path, script: str, python: str, resume_args: list[str]) -> RunLayout:
    """Run a script of 8 steps that saves step 4, fails after step 6, and is restarted; see it live."""
    folder.mkdir()
    config = run_file(folder, script, python, resume_args, "--max_steps=8")
    for name in ("slow", "hold"):
        (folder / name).touch()
    with command.start("--no-gui", "--trust", config, "--set", 'run.env.FAILS_AT="6"') as front:
        run = command.the_run()
        wait_for_step(run, 3, 90)
        assert live_progress(command)["total"] == 8
        for name in ("slow", "hold"):
            (folder / name).unlink()
        output, _ = front.communicate(timeout=150)
    assert front.returncode == 0, output
    return run


def broken_here(failure: Failure | None, folder: Path) -> None:
    """Rank 1 is named as the first that failed, with the user's own file."""
    assert failure is not None
    assert (failure.rank, failure.message) == (1, "RuntimeError: broken here")
    assert f'File "{folder}/train.py", line' in failure.traceback


def shown_of(run: RunLayout, folder: Path, command: Command, checkpoint: str) -> None:
    """The failure, the checkpoint that the restart continued from, and the progress at the end."""
    view = read_run(run)
    broken_here(view.attempts[0].first_failure, folder)
    assert agent_events(run, "attempt_started")[1].fields["resume_step"] == 4
    assert checkpoint in [row["name"] for row in command.json("ckpt", "list", run.root.name)]
    progress = ProgressReader(run).read(view)
    assert progress is not None
    assert (progress.step, progress.total) == (8, 8)
    assert progress.loss is not None
    *before, five, six = curve(folder)[:6]
    assert len(before) == 4
    assert curve(folder)[6:8] == [five, six]
    assert [line.split()[0] for line in curve(folder)[8:]] == ["7", "8"]


@pytest.mark.soak  # inside/test_torch_optimizer.py counts steps, test_restarted_curves.py restarts
@pytest.mark.shows("Lightning Fabric", *ALL)
def test_fabric(tmp_path: Path, torchdeck_home: Path) -> None:
    """Both steps after the checkpoint have the same loss again; its wrapped optimizer's steps are counted."""
    python = trainers_python()
    if python is None:
        pytest.skip(ABSENT)
    command = Command(torchdeck_home)
    run = fails_once(command, tmp_path / "project", FABRIC, python, ["--resume", "@{checkpoint}"])
    shown_of(run, tmp_path / "project", command, "step-4.ckpt")
    for attempt, steps in ((1, 6), (2, 4)):
        counted = read_progress(run.attempt(attempt).rank(0).counted)
        assert counted is not None
        assert counted.step == steps


@pytest.mark.soak  # a normal run trains a recipe under DeepSpeed, in tests/cli/test_deepspeed_run.py
@pytest.mark.shows("DeepSpeed", *ALL, "stop saves")
def test_deepspeed(tmp_path: Path, torchdeck_home: Path) -> None:
    """Stopped, it saves as it saved before. Resumed, it has the curve of a training by hand, and fails then.

    Its step is the engine's, with accumulation, two groups of parameters and after a resume.
    """
    python = deepspeed_python()
    if python is None:
        pytest.skip(NO_DEEPSPEED)
    command, folder = Command(torchdeck_home), tmp_path / "project"
    folder.mkdir()
    (folder / "slow").touch()
    config = run_file(folder, DEEPSPEED, python, ["--resume"], "--max_steps=80")
    failing = ("--set", 'run.env.FAILS_AT="80"', "--set", "launch.max_restarts=0")
    run, progress = stopped(command, config, 6, *failing)
    assert progress["total"] == 80
    assert read_run(run).state is RunState.CANCELLED
    step = int(curve(folder)[-1].split()[0])
    assert 6 <= step < 80
    listed = command.json("ckpt", "list", run.root.name)
    assert [row["name"] for row in listed] == ["global_step4", f"global_step{step}"]
    (folder / "slow").unlink()
    done = command.run("runs", "resume", run.root.name)
    assert done.returncode == 1, done.stdout + done.stderr
    assert agent_events(run, "attempt_started")[1].fields["resume_step"] == step
    view = read_run(run)
    broken_here(view.first_failure, folder)
    hand = tmp_path / "by_hand"
    by_hand(hand, DEEPSPEED, ("--max_steps=80",), python, DS_ACCELERATOR="cpu", OMP_NUM_THREADS="1")
    assert curve(folder) == curve(hand)
    ended = ProgressReader(run).read(view)
    assert ended is not None
    assert (ended.step, ended.total) == (80, 80)
    assert ended.loss is not None
    assert command.json("runs", "show", run.root.name)["origins"]["step"] == "DeepSpeed"


@pytest.mark.soak  # a normal run has the preset accelerate, whose stop and resume are the same layer's
@pytest.mark.timeout(480)  # three trainings on two ranks, with their imports
@pytest.mark.shows("diffusers with accelerate", *ALL, "stop saves")
def test_diffusers(tmp_path: Path) -> None:
    """Stopped, it saves as it saved before. Resumed, it has the curve that it has by hand, and fails then."""
    script = ScriptRun(tmp_path / "project", tmp_path / "home")
    config = script.config(DIFFUSERS, "--max_train_steps=60", more="[launch]\nmax_restarts = 0\n")
    (script.folder / "slow").touch()
    failing = ("--set", 'run.env.FAILS_AT="60"')
    run, progress = stopped(script.command, config, 6, *failing)
    assert progress["total"] == 60
    assert read_run(run).state is RunState.CANCELLED
    step = int(curve(script.folder)[-1].split()[0])
    assert 6 <= step < 60
    listed = script.command.json("ckpt", "list", run.root.name)
    assert [row["name"] for row in listed] == ["checkpoint-4", f"checkpoint-{step}"]
    (script.folder / "slow").unlink()
    done = script.command.run("runs", "resume", run.root.name, timeout=120)
    assert done.returncode == 1, done.stdout + done.stderr
    broken_here(read_run(run).first_failure, script.folder)
    by_hand(tmp_path / "by_hand", DIFFUSERS, ("--max_train_steps=60",))
    assert curve(script.folder) == curve(tmp_path / "by_hand")
    ended = ProgressReader(run).read(read_run(run))
    assert ended is not None
    assert (ended.step, ended.total) == (60, 60)
    exact = opened(run.root).series("train_loss", 0)
    rows = [line.split()[:2] for line in curve(script.folder)]
    assert exact.steps.tolist() == [int(step) for step, _ in rows]
    assert exact.values.tolist() == [float(loss) for _, loss in rows]
