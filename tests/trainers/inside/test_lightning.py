"""Lightning in a script, started by Torchdeck: the package from PyPI, on gloo."""

import csv
from pathlib import Path

import pytest

from support.cli.command import wait_for_step
from support.training.inside_scripts import LIGHTNING, ScriptRun
from support.training.live_progress import live_progress
from support.values.metrics import opened
from torchdeck.contract.metrics.inside_state import read_inside_state
from torchdeck.contract.metrics.progress import read_progress
from torchdeck.contract.run_states import RankPhase


@pytest.fixture
def script(tmp_path: Path) -> ScriptRun:
    return ScriptRun(tmp_path / "project", tmp_path / "home")


@pytest.mark.shows("Lightning", "metrics")
def test_the_series_are_what_lightning_gives_its_loggers(script: ScriptRun) -> None:
    """At full precision: the CSV file has the same steps, epochs and values; the other rank has its own."""
    layout = script.run(script.config(LIGHTNING, "13", "0"))
    with (script.folder / "logs/lightning_logs/version_0/metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    metrics = opened(layout.root)
    for name in ("train_loss", "val_loss", "epoch"):
        series = metrics.series(name, 0)
        logged = [(int(row["step"]), float(row[name])) for row in rows if row[name]]
        assert list(zip(series.steps.tolist(), series.values.tolist(), strict=True)) == logged
        assert metrics.series(name, 1).steps.tolist() == series.steps.tolist()
    for rank in (0, 1):
        files = layout.attempt(1).rank(rank)
        progress, state = read_progress(files.progress), read_inside_state(files.inside)
        assert progress is not None
        assert (progress.phase, progress.step, progress.total) == (RankPhase.DONE, 13, 13)
        assert state is not None
        assert (state.trainer, state.failures) == ("Lightning", ())


@pytest.mark.shows("Lightning", "total and ETA", "stop saves")
def test_a_stop_saves_at_the_end_of_the_step_on_all_ranks(script: ScriptRun) -> None:
    """Both ranks end their training after the same step, and the program exits with 0."""
    config = script.config(LIGHTNING, "2000", "0.05")
    with script.command.start("--no-gui", "--trust", config) as front:
        layout = script.command.the_run()
        wait_for_step(layout, 5, 90)
        assert live_progress(script.command)["total"] == 2000
        stopped = script.command.run("runs", "stop", layout.root.name)
        assert stopped.returncode == 0, stopped.stdout + stopped.stderr
        front.communicate(timeout=60)
    outputs = [layout.attempt(1).rank(rank).stdout.read_text() for rank in (0, 1)]
    steps = {output.rpartition("ended at step ")[2].strip() for output in outputs}
    assert len(steps) == 1, outputs
    step = int(steps.pop())
    saved = script.folder / "checkpoints" / f"epoch=0-step={step}.ckpt"
    assert 5 <= step < 2000
    assert saved.is_file()
    assert [layout.attempt(1).rank(rank).exit.read_text().strip() for rank in (0, 1)] == ["0", "0"]
    assert script.command.json("runs", "show", layout.root.name)["state"] == "CANCELLED"
