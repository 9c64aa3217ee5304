"""Damaged and hostile files: no reader raises, reads without end, or gives a value of another kind."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import strategies as st

from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from torchdeck.contract.refusal import Refusal
from torchdeck.trainers.files.csv_file import CsvFile
from torchdeck.trainers.files.event_file import EventFile, event
from torchdeck.trainers.files.growing import FileReader
from torchdeck.trainers.files.json_lines import JsonLines, TitanLog
from torchdeck.trainers.files.mlflow_database import MlflowDatabase, mlflow_runs
from torchdeck.trainers.files.mlflow_file import MlflowMetric
from torchdeck.trainers.files.trackio_file import TrackioFile, trackio_runs
from torchdeck.trainers.files.trainer_state import TrainerState
from torchdeck.trainers.files.wandb_file import WandbFile, history

KINDS: dict[str, Callable[[Path], FileReader]] = {
    "jsonl": JsonLines,
    "titan": TitanLog,
    "csv": CsvFile,
    "event": EventFile,
    "wandb": WandbFile,
    "mlflow": partial(MlflowMetric, name="loss"),
    "mlflow database": MlflowDatabase,
    "trackio": partial(TrackioFile, run_id="r"),
    "state": TrainerState,
}
TRACKIO = (
    "CREATE TABLE metrics (id INTEGER PRIMARY KEY, run_id TEXT, run_name TEXT, timestamp, step, metrics)",
    "INSERT INTO metrics VALUES (1, 'r', 'happy', '2025-05-01T10:00:00+00:00', 3, '{\"loss\": 0.5}')",
)
MLFLOW = (
    "CREATE TABLE runs (run_uuid TEXT, name TEXT, start_time INTEGER)",
    "CREATE TABLE metrics (key, value, timestamp, run_uuid TEXT, step, is_nan)",
    "INSERT INTO runs VALUES ('r', 'happy', 1700000000000)",
    "INSERT INTO metrics VALUES ('loss', 0.5, 1700000000000, 'r', 3, 0)",
)
RECORD = {
    "step": 1,
    "loss": 0.5,
    "epoch": 0.1,
    "total_steps": 9,
    "time": 1.7e9,
    "global_step/max_steps": "1/9",
}
STATE = {
    "log_history": [{"step": 1, "loss": 2.0, "epoch": 0.5}, {"step": 2, "eval_loss": 1.0}],
    "global_step": 2,
    "max_steps": 9,
    "num_train_epochs": 1,
}
TITAN = {"event_name": "metric", "step": 3, "normal": {"step": 3}, "double": {"loss": 1.0}, "time": 1.0}
TEXTS = (
    b'{"step": 1e999, "loss": 1e999, "epoch": "x"}\n{"step": -1, "loss": {}}\n',
    b"step,loss\n1,2\n,,,,\n\"\n\0\n1e999,nan\n-5,3\n",
    b"1700000000000 0.5 1\n99999999999999999999999999 1 1\nx y z\n1 nan 1\n",
    b":W&B\xe1\xbe\0" + bytes(60),
    bytes(200),
    b"SQLite format 3\0" + bytes(range(255)),
)  # fmt: skip


def check(reader: FileReader) -> None:
    """Read to the end; each call uses something up."""
    for _ in range(20):
        for reading in reader.read():
            assert all(isinstance(value, float) for value in reading.values.values())
            assert reading.step is None or 0 <= reading.step < 2**63
            assert reading.time is None or 0 <= reading.time < 1e12
        if not reader.more:
            break
    assert not reader.more


def read_file(case: bytes, place: Path) -> None:
    """Every reader, as a folder of another program may have anything under any name."""
    path = place / "file"
    path.write_bytes(case)
    for kind in KINDS.values():
        check(kind(path))
    for runs in (trackio_runs, mlflow_runs):
        with contextlib.suppress(Refusal):
            assert all(isinstance(run.name, str) for run in runs(path))


def read_message(case: bytes, _: Path) -> None:
    """With checksums that are right, an event or a record may still be anything."""
    for reading in (event(case), history(case)):
        assert reading is None or reading.step is None or reading.step >= 0


def read_rows(case: bytes, place: Path) -> None:
    """Sound databases whose cells are anything: a text, bytes, or a number."""
    text = case.decode("utf-8", "replace")
    cells: list[object] = [text, case, len(case)]
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(text)
        cells += [value] if isinstance(value, float) or (type(value) is int and abs(value) < 2**63) else []
    for name, statements in (("trackio", TRACKIO), ("mlflow", MLFLOW)):
        path = place / name
        path.write_bytes(database(place / "new", statements))
        (place / "new").unlink()
        columns = (
            ("timestamp", "step", "metrics") if name == "trackio" else ("key", "value", "timestamp", "step")
        )
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            for cell in cells:
                for column in columns:
                    copied = "run_id, run_name, " if name == "trackio" else "run_uuid, is_nan, "
                    others = ", ".join(each for each in columns if each != column)
                    connection.execute(
                        f"INSERT INTO metrics ({copied}{others}, {column}) "  # noqa: S608 - constants
                        f"SELECT {copied}{others}, ? FROM metrics LIMIT 1",
                        (cell,),
                    )
        check(TrackioFile(path, "r") if name == "trackio" else MlflowDatabase(path))


def database(path: Path, statements: tuple[str, ...]) -> bytes:
    """The bytes of a small database."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA page_size = 512")
        for statement in statements:
            connection.execute(statement)
    return path.read_bytes()


def test_files(tmp_path: Path) -> None:
    """Random content, and what looks right and is not."""
    lines = st.lists(hostile.documents(RECORD, TITAN), max_size=4).map(b"\n".join)
    databases = [database(tmp_path / name, each) for name, each in (("t", TRACKIO), ("m", MLFLOW))]
    seeds = st.sampled_from((*TEXTS, *databases))
    read_all(
        read_file,
        seeds
        | seeds.flatmap(hostile.damaged)
        | lines.map(lambda text: text + b"\n")
        | hostile.documents(STATE)
        | st.binary(max_size=400),
    )


def test_messages() -> None:
    read_all(read_message, st.binary(max_size=200))


def test_rows_of_databases() -> None:
    read_all(read_rows, hostile.documents({"loss": 0.5, "epoch": 1}, "2025-05-01T10:00:00", 3, 0.5))


@pytest.mark.parametrize("pattern", [
    "wandb/offline-*/run-*.wandb", "lightning_logs/*/*.csv", "structured_logs/*.jsonl",
    "checkpoint-40/trainer_state.json",
])  # fmt: skip
def test_changed_bytes_of_real_files(written: Path, pattern: str) -> None:
    (source,) = written.glob(pattern)
    content = source.read_bytes()[:20_000]
    read_all(read_file, hostile.damaged(content).flatmap(hostile.damaged))


@pytest.mark.parametrize("kind", list(KINDS))
def test_what_is_no_file(kind: str, tmp_path: Path) -> None:
    """Absent, a folder, a pipe, a device: nothing, at once."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "absent", tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        assert KINDS[kind](path).read() == []
