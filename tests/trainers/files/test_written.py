"""Readers give exactly what the real packages wrote."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from support.written.written_metrics import STEPS, loss_at
from support.written.written_mlflow import write_mlflow
from torchdeck.contract.run_states import RankPhase
from torchdeck.trainers.files.csv_file import CsvFile
from torchdeck.trainers.files.growing import FileReader
from torchdeck.trainers.files.json_lines import TitanLog
from torchdeck.trainers.files.mlflow_database import MlflowDatabase
from torchdeck.trainers.files.mlflow_file import MlflowMetric
from torchdeck.trainers.files.sqlite_file import SECONDS
from torchdeck.trainers.files.trainer_state import TrainerState
from torchdeck.trainers.files.wandb_file import WandbFile
from torchdeck.trainers.reading import Reading

LOSSES = [(step, loss_at(step)) for step in STEPS]


def everything(reader: FileReader) -> list[Reading]:
    """All readings, and none after that."""
    found = reader.read()
    while reader.more:
        found += reader.read()
    assert reader.read() == []
    return found


def values(readings: list[Reading], name: str) -> list[tuple[int | None, float]]:
    """(step, value) of one metric."""
    return [(reading.step, reading.values[name]) for reading in readings if name in reading.values]


def only(folder: Path, pattern: str) -> Path:
    """The one file of that name."""
    (path,) = folder.glob(pattern)
    return path


def test_wandb(written: Path) -> None:
    """Steps and times, nested names, NaN, a row longer than a block, no texts; global_step is the step."""
    readings = everything(WandbFile(only(written, "wandb/offline-*/run-*.wandb")))
    assert values(readings, "train/loss") == LOSSES
    assert values(readings, "nested/a") == [(step, 1.5) for step in STEPS]
    assert "note" not in readings[0].values
    ((step, bad),) = values(readings, "bad")
    assert (step, math.isnan(bad)) == (77, True)
    assert values(readings, "names/name02999") == [(42, 2999.0)]
    assert all(reading.time is not None and abs(time.time() - reading.time) < 3600 for reading in readings)


def test_wandb_of_earlier(written: Path) -> None:
    """Rows before the run began are left out by their time."""
    path = only(written, "wandb/offline-*/run-*.wandb")
    assert everything(WandbFile(path, since=time.time() + 60)) == []


def test_mlflow(written: Path) -> None:
    """A metric with a slash in its name, with its times."""
    path = only(written, "mlruns/*/*/metrics/train/loss")
    readings = everything(MlflowMetric(path, "train/loss"))
    assert values(readings, "train/loss") == LOSSES
    assert all(reading.time is not None and abs(time.time() - reading.time) < 3600 for reading in readings)
    assert everything(MlflowMetric(path, "train/loss", since=time.time() + 60)) == []


def test_mlflow_database_that_grows(tmp_path: Path) -> None:
    """While a program runs: what is logged from its start on, each row once."""
    path = tmp_path / "mlflow.db"
    write_mlflow(path, {"before": 3}, 1.7e9)
    reader = MlflowDatabase(path, since=1.7e9 + 100)
    assert reader.read() == []
    write_mlflow(path, {"now": 5}, 1.7e9 + 100)
    assert [(reading.step, reading.time) for reading in reader.read()] == [
        (step, 1.7e9 + 100 + step) for step in range(5)
    ]
    assert reader.read() == []


def test_mlflow_database_whose_writer_deletes_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two looks at it."""
    path = tmp_path / "mlflow.db"
    write_mlflow(path, {"now": 5}, 1.7e9)
    monkeypatch.setattr(Path, "exists", lambda _path: True)
    assert len(MlflowDatabase(path).read()) == 5


def test_mlflow_database_that_takes_long_is_left_at_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE VIEW metrics AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT "
            "n AS rowid, 'loss' AS key, n AS value, n AS timestamp, n AS step, 0 AS is_nan, '' AS run_uuid "
            "FROM r"
        )
    reader = MlflowDatabase(path)
    reader.limit = 0.1
    begun = time.monotonic()
    assert reader.read() == []
    assert 0.1 <= time.monotonic() - begun < SECONDS / 2


def test_lightning(written: Path) -> None:
    """A metric that came in mid-run, empty cells, epochs."""
    readings = everything(CsvFile(only(written, "lightning_logs/version_0/metrics.csv")))
    assert values(readings, "train_loss") == LOSSES
    assert values(readings, "val_loss") == [(20, 9.0)]
    assert [reading.epoch for reading in readings] == [0, 0, 1, 1, 1, 2]


def test_lightning_writes_the_file_again_with_a_new_metric(written: Path, tmp_path: Path) -> None:
    """Rows that were read stay read."""
    whole = only(written, "lightning_logs/version_0/metrics.csv").read_text()
    rows = [line.split(",") for line in whole.split()]
    last = rows[0].index("val_loss")
    early = "".join(",".join(row[:last] + row[last + 1 :]) + "\n" for row in rows[:3])
    path = tmp_path / "metrics.csv"
    path.write_text(early)
    reader = CsvFile(path)
    assert values(everything(reader), "train_loss") == LOSSES[:2]
    path.write_text(whole)
    rest = everything(reader)
    assert values(rest, "train_loss") == LOSSES[2:]
    assert values(rest, "val_loss") == [(20, 9.0)]


def test_trainer_state(written: Path) -> None:
    """log_history, then the position at the save; again only when it is replaced."""
    path = written / "checkpoint-40/trainer_state.json"
    reader = TrainerState(path)
    readings = everything(reader)
    assert values(readings, "loss") == LOSSES
    assert values(readings, "eval_loss") == [(20, 1 / 3)]
    assert (readings[-1].step, readings[-1].total, readings[-1].epoch) == (40, 300, 0.4)
    assert {reading.total for reading in readings} == {300}
    history = json.loads(path.read_text())["log_history"]
    assert len(readings) == len(history) + 1


def test_trainer_state_after_a_resume(written: Path, tmp_path: Path) -> None:
    """Rows of the checkpoint from which it continued are an older run's; those of a rewritten one are not."""
    since = 2e9
    for step in STEPS:
        (tmp_path / f"checkpoint-{step}").mkdir()
        path = tmp_path / f"checkpoint-{step}/trainer_state.json"
        path.write_bytes((written / f"checkpoint-{step}/trainer_state.json").read_bytes())
        os.utime(path, (since + step - 30, since + step - 30))
    reader = TrainerState(tmp_path / "checkpoint-40/trainer_state.json", since)
    assert values(everything(reader), "loss") == LOSSES[3:]
    os.utime(tmp_path / "checkpoint-20/trainer_state.json", (since + 1, since + 1))
    (tmp_path / "checkpoint-10/trainer_state.json").unlink()
    (tmp_path / "checkpoint-0/trainer_state.json").unlink()
    again = TrainerState(tmp_path / "checkpoint-40/trainer_state.json", since)
    assert values(everything(again), "loss") == LOSSES
    assert everything(TrainerState(tmp_path / "checkpoint-20/trainer_state.json", since + 5)) == []


def test_trainer_state_after_a_resume_from_elsewhere(written: Path, tmp_path: Path) -> None:
    """The checkpoint that the arguments name lies in another folder."""
    (tmp_path / "checkpoint-40").mkdir()
    path = tmp_path / "checkpoint-40/trainer_state.json"
    path.write_bytes((written / "checkpoint-40/trainer_state.json").read_bytes())
    reader = TrainerState(path, path.stat().st_mtime - 0.001)
    reader.checkpoint = written / "checkpoint-20"
    assert values(everything(reader), "loss") == LOSSES[3:]


def test_torchtitan(written: Path) -> None:
    """Steps, single values, and the phases."""
    readings = everything(TitanLog(only(written, "structured_logs/*.jsonl")))
    assert values(readings, "tokens") == [(1, 64.0), (2, 128.0)]
    assert [(reading.step, reading.phase) for reading in readings if reading.phase] == [
        (1, RankPhase.TRAINING), (None, RankPhase.EVALUATING), (None, RankPhase.TRAINING),
        (2, RankPhase.TRAINING), (None, RankPhase.EVALUATING), (None, RankPhase.TRAINING),
    ]  # fmt: skip
    assert all(reading.time is not None and abs(time.time() - reading.time) < 3600 for reading in readings)


@pytest.mark.parametrize(
    "pattern", ["wandb/offline-*/run-*.wandb", "structured_logs/*.jsonl", "lightning_logs/*/*.csv"]
)
def test_byte_by_byte(written: Path, tmp_path: Path, pattern: str) -> None:
    """A file that grows in the smallest steps gives the same as the whole of it."""
    kinds: dict[str, Callable[[Path], FileReader]] = {
        ".wandb": WandbFile,
        ".jsonl": TitanLog,
        ".csv": CsvFile,
    }
    content = only(written, pattern).read_bytes()[:6000]
    path = tmp_path / "file"
    path.write_bytes(content)
    kind = kinds[Path(pattern).suffix]
    whole = everything(kind(path))
    path.write_bytes(b"")
    reader, found = kind(path), []
    for at in range(0, len(content), 13):
        with path.open("ab") as file:
            file.write(content[at : at + 13])
        found += everything(reader)
    assert found == whole
    assert whole
