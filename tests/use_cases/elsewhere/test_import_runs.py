"""Import of runs that other tools recorded: files of the real packages, and hostile ones."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest
from torch.utils.tensorboard import SummaryWriter

from support.system.trainers_python import ABSENT, trainers_python
from support.written import written_old_runs
from support.written.written_files import written_files
from support.written.written_metrics import STEPS, loss_at
from support.written.written_mlflow import write_mlflow
from torchdeck.cli.main import main
from torchdeck.contract.refusal import Refusal
from torchdeck.launching.taking_over import NotResumableError, resume
from torchdeck.metrics import RunMetrics
from torchdeck.runs.folders.checkpoints import script_checkpoints
from torchdeck.runs.follower import RunFollower, read_run
from torchdeck.runs.run_state import RunState
from torchdeck.trainers.files.trackio_file import trackio_runs
from torchdeck.use_cases.elsewhere.import_runs import Imported, import_runs
from torchdeck.use_cases.resume import cloned

BEGAN = 1.7e9


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    monkeypatch.setenv("TORCHDECK_HOME", str(folder))
    return folder


def run_python(module: str, folder: Path) -> None:
    """Have the trainers' Python write files into a folder."""
    python = trainers_python()
    if python is None:
        pytest.skip(ABSENT)
    done = subprocess.run(
        [python, module, str(folder)],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


def tensorboard(folder: Path, steps: range, at: float = BEGAN) -> None:
    with SummaryWriter(str(folder)) as writer:
        for step in steps:
            writer.add_scalar("train/loss", loss_at(step), step, walltime=at + step)


def series(found: Imported, name: str) -> list[tuple[int, float]]:
    """(step, value) of a metric of an imported run."""
    assert found.layout is not None
    metrics = RunMetrics(found.layout.root)
    metrics.refresh()
    read = metrics.series(name, 0)
    return list(zip(read.steps.tolist(), read.values.tolist(), strict=True))


def test_tensorboard_with_a_continued_run(tmp_path: Path, home: Path) -> None:
    """Each folder is a run; two event files of one folder are one curve, with the times of the training."""
    tensorboard(tmp_path / "logs/a", range(10))
    tensorboard(tmp_path / "logs/b", range(5))
    before = next((tmp_path / "logs/a").iterdir())
    before.rename(before.with_name(f"{before.name}.0"))
    tensorboard(tmp_path / "logs/a", range(10, 20))
    found = {each.name: each for each in import_runs(tmp_path / "logs", home=home)}
    assert sorted(found) == ["logs-a", "logs-b"]
    one = found["logs-a"]
    assert [step for step, _ in series(one, "train/loss")] == list(range(20))
    assert series(one, "train/loss")[3][1] == pytest.approx(loss_at(3), rel=1e-6)
    assert one.layout is not None
    view = read_run(one.layout)
    assert (view.state, view.kind, view.started, view.ended) == (
        RunState.SUCCEEDED, "imported", BEGAN, BEGAN + 19
    )  # fmt: skip
    assert "does not record how it ended" in view.why


def test_importing_again_adds_what_has_changed(tmp_path: Path, home: Path) -> None:
    tensorboard(tmp_path / "logs/a", range(10))
    (first,) = import_runs(tmp_path / "logs", home=home)
    (again,) = import_runs(tmp_path / "logs", home=home)
    assert first.layout is not None
    assert (again.layout, again.earlier) == (None, first.layout.root.name)
    tensorboard(tmp_path / "logs/a", range(10, 12))
    follower, metrics = RunFollower(first.layout), RunMetrics(first.layout.root)
    before = follower.refresh()  # as a window that shows it
    metrics.refresh()
    (grown,) = import_runs(tmp_path / "logs", home=home)
    assert (grown.layout, grown.updated) == (first.layout, True)
    assert [path.name for path in (home / "runs").iterdir()] == [first.layout.root.name]
    assert [step for step, _ in series(grown, "train/loss")] == list(range(12))
    after = follower.refresh()
    assert after == read_run(first.layout)
    assert before.ended is not None
    assert (after.started, after.ended, after.state) == (before.started, before.ended + 2, before.state)
    metrics.refresh()
    assert len(metrics.series("train/loss", 0).steps) == 12
    (last,) = import_runs(tmp_path / "logs", home=home)
    assert last.earlier == first.layout.root.name


def test_another_training_in_the_same_folder_is_another_run(tmp_path: Path, home: Path) -> None:
    """Its table replaced that of the first one, and is longer; both continue to be known."""
    table = tmp_path / "work/metrics.csv"
    table.parent.mkdir()

    def trained(steps: int, factor: float) -> Imported:
        rows = (f"{step},{factor / step}\n" for step in range(1, steps + 1))
        table.write_text("step,loss\n" + "".join(rows))
        (found,) = import_runs(table.parent, home=home)
        return found

    first, second, longer = trained(110, 1.0), trained(150, 2.0), trained(160, 2.0)
    assert first.layout is not None
    assert second.layout is not None
    assert second.layout != first.layout
    assert series(first, "loss") == [(step, 1 / step) for step in range(1, 111)]
    assert (longer.layout, longer.updated) == (second.layout, True)
    assert series(second, "loss") == [(step, 2 / step) for step in range(1, 161)]
    assert trained(160, 2.0).earlier == second.layout.root.name
    assert trained(110, 1.0).earlier == first.layout.root.name
    assert len(list((home / "runs").iterdir())) == 2


def test_a_checkpoint_that_came_later_is_added(tmp_path: Path, home: Path) -> None:
    """And the run has come further; the third import knows what the second brought."""
    runs = []
    for count, step in enumerate((10, 20, 30), 1):
        saved = tmp_path / f"out/checkpoint-{step}"
        saved.mkdir(parents=True)
        history = [{"step": each, "loss": 1.0 / each} for each in range(1, step + 1)]
        state = {"global_step": step, "max_steps": 30, "log_history": history}
        (saved / "trainer_state.json").write_text(json.dumps(state))
        (saved / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
        (found,) = import_runs(tmp_path / "out", home=home)
        assert found.layout is not None
        assert (found.steps, found.checkpoints) == (step, count)
        assert [each for each, _ in series(found, "loss")] == list(range(1, step + 1))
        assert len(script_checkpoints(found.layout)) == count
        runs.append(found.layout)
    view = read_run(runs[-1])
    assert (view.state, len(view.attempts)) == (RunState.SUCCEEDED, 1)
    assert len(list((home / "runs").iterdir())) == 1


def test_runs_in_mlflows_database(tmp_path: Path, home: Path) -> None:
    """Each run of it is one here, with the times of the training; nothing is written next to it."""
    folder = tmp_path / "mlflow"
    folder.mkdir()
    write_mlflow(folder / "mlflow.db", {"first": 20, "second": 5}, BEGAN)
    found = {each.name: each for each in import_runs(folder, home=home)}
    assert [path.name for path in folder.iterdir()] == ["mlflow.db"]
    assert sorted(found) == ["mlflow-mlflow-first", "mlflow-mlflow-second"]
    first = found["mlflow-mlflow-first"]
    assert series(first, "train/loss") == [(step, loss_at(step)) for step in range(20)]
    assert len(series(found["mlflow-mlflow-second"], "train/loss")) == 5
    assert first.layout is not None
    assert read_run(first.layout).started == BEGAN


@pytest.mark.processes
def test_files_of_the_real_packages(
    tmp_path: Path, home: Path, tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> None:
    """wandb offline, Lightning's CSV, Hugging Face checkpoints: steps, losses, checkpoints, the end."""
    project = tmp_path / "project"
    shutil.copytree(written_files(tmp_path_factory, worker_id), project)
    found = {each.program: each for each in import_runs(project, name="old", home=home)}
    assert sorted(found) == ["Hugging Face Trainer", "Lightning", "wandb"]
    expected = [(step, loss_at(step)) for step in STEPS]
    assert series(found["wandb"], "train/loss") == expected
    assert series(found["Lightning"], "train_loss") == expected
    assert series(found["Hugging Face Trainer"], "loss") == expected
    layout = found["Hugging Face Trainer"].layout
    assert layout is not None
    saved = [(each.name, each.saved.step) for each in script_checkpoints(layout)]
    assert sorted(saved) == sorted((f"checkpoint-{step}", step) for step in STEPS)
    view = read_run(layout)
    assert (view.name, view.state) == ("old", RunState.CANCELLED)
    assert "it ended at step 40 of 300" in view.why
    with pytest.raises(NotResumableError, match="was imported"):
        resume(layout, "terminal", dict)
    with pytest.raises(Refusal, match="was imported"):
        cloned(layout)


@pytest.mark.processes
def test_trackio(tmp_path: Path, home: Path) -> None:
    """Both runs of a project, with their times; nothing is written next to its database."""
    folder = tmp_path / "trackio"
    folder.mkdir()
    run_python(written_old_runs.__file__, folder)
    before = sorted(folder.iterdir())
    found = {each.name: each for each in import_runs(folder, home=home)}
    assert sorted(folder.iterdir()) == before
    assert sorted(found) == ["trackio-project-happy", "trackio-project-sad"]
    happy = found["trackio-project-happy"]
    assert series(happy, "loss") == [(step, 1 / (step + 1)) for step in range(20)]
    assert happy.layout is not None
    assert read_run(happy.layout).started == written_old_runs.BEGAN.timestamp()


def test_hostile_files_end_in_sentences(tmp_path: Path, home: Path) -> None:
    """A torn database, one with a view that never ends, a FIFO, and noise: the sound run is imported."""
    folder = tmp_path / "logs"
    tensorboard(folder / "sound", range(3))
    (folder / "torn.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    with sqlite3.connect(folder / "endless.db") as connection:
        connection.execute(
            "CREATE VIEW metrics AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT "
            "n AS id, n AS run_id, n AS run_name, n AS timestamp, n AS step, n AS metrics FROM r"
        )
    connection.close()
    (folder / "noise").mkdir()
    (folder / "noise/run-abc.wandb").write_bytes(os.urandom(5000))
    (folder / "noise/trainer_state.json").write_text("[" * 100_000)
    os.mkfifo(folder / "noise/events.out.tfevents.1")
    found = list(import_runs(folder, home=home))
    assert [each.name for each in found if each.layout is not None] == ["logs-sound"]
    reasons = " ".join(each.why for each in found)
    assert "torn.db cannot be read" in reasons
    assert "it has no metrics" in reasons
    assert trackio_runs(folder / "endless.db") == []


@pytest.mark.usefixtures("home")
def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It lists what was imported, which `runs list` and `ckpt list` then know; an empty folder is refused."""
    (tmp_path / "empty").mkdir()
    assert main(["import", str(tmp_path / "empty")]) == 2
    assert main(["import", str(tmp_path / "absent")]) == 2
    assert "no runs were found" in capsys.readouterr().err
    tensorboard(tmp_path / "logs", range(3))
    assert main(["import", str(tmp_path / "logs"), "--json"]) == 0
    (row,) = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (row["name"], row["program"], row["steps"]) == ("logs", "TensorBoard", 2)
    assert main(["runs", "list", "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert listed["progress"]["loss"] == pytest.approx(loss_at(2), rel=1e-6)
    assert main(["runs", "pull", row["id"]]) == 2
    said = f"logs was imported: what it wrote is on this machine already, in {tmp_path}"
    assert said in capsys.readouterr().err
    for words in (["runs", "list"], ["runs", "show", row["id"]], ["runs", "metrics", row["id"]]):
        assert main(words) == 0
        assert "l" in capsys.readouterr().out
    assert main(["ckpt", "list", row["id"]]) in (0, 2)
    assert "NoneType" not in capsys.readouterr().err
    assert main(["runs", "delete", row["id"], "--yes"]) == 0
