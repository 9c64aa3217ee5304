"""Hugging Face Trainer in a script, started by Torchdeck: the package from PyPI, on gloo."""

import json
import subprocess
from pathlib import Path

import pytest

from support.cli.command import wait_for_step
from support.system.trainers_python import trainers_python
from support.training.inside_scripts import HUGGING_FACE, ScriptRun, torchrun_environment
from support.training.live_progress import live_progress
from support.values.metrics import opened
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.inside_state import read_inside_state
from torchdeck.contract.metrics.progress import read_progress
from torchdeck.contract.run_states import RankPhase
from torchdeck.runs.follower import read_run


@pytest.fixture
def script(tmp_path: Path) -> ScriptRun:
    return ScriptRun(tmp_path / "project", tmp_path / "home")


@pytest.mark.shows("Hugging Face Trainer", "starts", "metrics", "steps")
def test_the_series_are_the_log_history_of_the_same_program_under_torchrun(script: ScriptRun) -> None:
    """With data-loader workers: bit for bit, on both ranks, apart from the times that evaluations took."""
    config = script.config(HUGGING_FACE, "12", "0", "1")
    python = str(trainers_python())
    subprocess.run(
        [
            python,
            "-m",
            "torch.distributed.run",
            "--nproc-per-node=2",
            "--standalone",
            "train.py",
            "12",
            "0",
            "1",
        ],
        cwd=script.folder,
        env=torchrun_environment(),
        check=True,
        timeout=120,
        capture_output=True,
    )
    plain = without_times(script.folder / "log_history.json")
    layout = script.run(config)
    history = without_times(script.folder / "log_history.json")
    assert history == plain
    for rank in (0, 1):
        metrics = opened(layout.root)
        for name in ("loss", "grad_norm", "learning_rate", "eval_loss", "epoch"):
            series = metrics.series(name, rank)
            expected = [(row["step"], row[name]) for row in history if name in row]
            assert list(zip(series.steps.tolist(), series.values.tolist(), strict=True)) == expected
        files = layout.attempt(1).rank(rank)
        progress, state = read_progress(files.progress), read_inside_state(files.inside)
        assert progress is not None
        assert (progress.phase, progress.step, progress.total) == (RankPhase.DONE, 12, 12)
        assert state is not None
        assert (state.trainer, state.failures) == ("Hugging Face Trainer", ())


def without_times(path: Path) -> list[dict[str, float]]:
    """log_history as the program wrote it, without what differs between two equal trainings."""
    _, history = json.loads(path.read_text())
    path.unlink()
    return [{k: v for k, v in row.items() if "runtime" not in k and "per_second" not in k} for row in history]


def test_without_callbacks_nothing_of_them_is_there(script: ScriptRun) -> None:
    program = """
        import os, sys
        import transformers.trainer
        assert transformers.trainer.DEFAULT_CALLBACKS == [transformers.trainer.DefaultFlowCallback]
        assert not any("inside" in entry for entry in [*sys.path, os.environ["PYTHONPATH"]])
        assert not any("torchdeck" in name for name in sys.modules)
    """
    layout = script.run(script.config(program, ranks=1, more="[telemetry]\ninside = false\n"))
    files = layout.attempt(1).rank(0)
    assert not files.inside.exists()
    assert not files.progress.exists()


def test_a_trainer_whose_api_changed_trains_without_callbacks(script: ScriptRun) -> None:
    """An attribute that is gone switches the callbacks off, and inside.json says why."""
    program = HUGGING_FACE.replace(
        "class Tokens",
        "import transformers.trainer\n"
        "ours = transformers.trainer.DEFAULT_CALLBACKS[-1]\n"
        "passed = ours.on_step_end\n"
        "ours.on_step_end = lambda s, args, state, control, **k: passed(s, args, object(), control)\n\n\n"
        "class Tokens",
    )
    layout = script.run(script.config(program, "5", "0", "0", ranks=1))
    assert json.loads((script.folder / "log_history.json").read_text())[0] == 5
    files = layout.attempt(1).rank(0)
    state = read_inside_state(files.inside)
    assert state is not None
    assert state.failures == (
        "Hugging Face Trainer, on_step_end: AttributeError: 'object' object has no attribute 'global_step'",
    )
    assert not files.progress.exists()
    shown = script.command.run("runs", "show", layout.root.name).stdout
    assert f"failed on rank 0 and are off; the program is not affected: {state.failures[0]}" in shown


@pytest.mark.shows("Hugging Face Trainer", "total and ETA", "stop saves", "checkpoints")
def test_a_stop_saves_at_the_end_of_the_step_on_all_ranks(script: ScriptRun) -> None:
    """All three ranks end their training after one step; the program runs to its end and exits with 0."""
    config = script.config(HUGGING_FACE, "2000", "0.05", "0", ranks=3)
    with script.command.start("--no-gui", "--trust", config) as front:
        layout = script.command.the_run()
        wait_for_step(layout, 5, 90)
        assert live_progress(script.command)["total"] == 2000
        stopped = script.command.run("runs", "stop", layout.root.name)
        assert stopped.returncode == 0, stopped.stdout + stopped.stderr
        front.communicate(timeout=60)
    steps = {read_text(layout, rank).rpartition("ended at step ")[2].strip() for rank in range(3)}
    assert len(steps) == 1, steps
    step = int(steps.pop())
    assert 5 <= step < 2000
    state = json.loads((script.folder / "out" / f"checkpoint-{step}" / "trainer_state.json").read_text())
    assert state["global_step"] == step
    listed = script.command.json("ckpt", "list", layout.root.name)
    assert [(row["name"], row["step"]) for row in listed] == [(f"checkpoint-{step}", step)]
    for rank in range(3):
        files = layout.attempt(1).rank(rank)
        progress = read_progress(files.progress)
        assert progress is not None
        assert (progress.phase, progress.step) == (RankPhase.STOPPING, step)
        assert files.exit.read_text().strip() == "0"
    assert script.command.json("runs", "show", layout.root.name)["state"] == "CANCELLED"


def read_text(layout: RunLayout, rank: int) -> str:
    return layout.attempt(1).rank(rank).stdout.read_text()


@pytest.mark.shows("Hugging Face Trainer", "failure named")
def test_the_first_failing_rank_is_named_with_the_scripts_own_line(script: ScriptRun) -> None:
    begin = "def __getitem__(self, index):"
    raising = "\n        if os.environ['RANK'] == '1':\n            raise KeyError('bad')"
    program = HUGGING_FACE.replace(begin, begin + raising)
    config = script.config(program, "12", "0", "0", more="[launch]\nmax_restarts = 0\n")
    done = script.command.run("--no-gui", "--trust", config)
    assert done.returncode == 1, done.stdout + done.stderr
    failure = read_run(script.command.the_run()).first_failure
    assert failure is not None
    assert (failure.rank, failure.message) == (1, "KeyError: 'bad'")
    assert f'File "{script.folder}/train.py", line' in failure.traceback
