"""Damaged and hostile files: no reader ever raises, reads without end, or gives a value of another kind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.trainers.files.csv_file import CsvFile
from torchdeck.trainers.files.event_file import EventFile, event
from torchdeck.trainers.files.growing import FileReader
from torchdeck.trainers.files.json_lines import JsonLines, TitanLog
from torchdeck.trainers.files.mlflow_database import MlflowDatabase
from torchdeck.trainers.files.mlflow_file import MlflowMetric
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
    "state": TrainerState,
}
SEEDS = [
    b'{"step": 1e999, "loss": 1e999, "epoch": "x"}\n{"step": -1, "loss": {}}\n',
    b'{"log_history": [1, {"step": 1, "loss": 2}, {"step": null}, {"step": 1e400}], "max_steps": "many"}',
    b"step,loss\n1,2\n,,,,\n\"\n\0\n1e999,nan\n-5,3\n",
    b"1700000000000 0.5 1\n99999999999999999999999999 1 1\nx y z\n1 nan 1\n",
    b":W&B\xe1\xbe\0" + bytes(60),
    bytes(200),
    b"SQLite format 3\0" + bytes(range(255)),
]  # fmt: skip


def check(reader: FileReader) -> None:
    """Read to the end; each call uses something up."""
    for _ in range(20):
        for reading in reader.read():
            assert all(isinstance(value, float) for value in reading.values.values())
            assert reading.step is None or 0 <= reading.step < 2**63
        if not reader.more:
            break
    assert not reader.more


@pytest.mark.parametrize("kind", list(KINDS))
def test_any_bytes(kind: str, tmp_path: Path) -> None:
    """Random content, and what looks right and is not."""
    path = tmp_path / "file"

    @given(content=st.binary(max_size=400) | st.sampled_from(SEEDS))
    def read(content: bytes) -> None:
        path.write_bytes(content)
        check(KINDS[kind](path))

    read()


@given(body=st.binary(max_size=200))
def test_any_message(body: bytes) -> None:
    """With checksums that are right, an event or a record may still be anything."""
    for reading in (event(body), history(body)):
        assert reading is None or reading.step is None or reading.step >= 0


@pytest.mark.parametrize(("kind", "pattern"), [
    ("wandb", "wandb/offline-*/run-*.wandb"), ("csv", "lightning_logs/*/*.csv"),
    ("titan", "structured_logs/*.jsonl"),
    ("state", "checkpoint-40/trainer_state.json"),
])  # fmt: skip
def test_changed_bytes_of_real_files(written: Path, tmp_path: Path, kind: str, pattern: str) -> None:
    """A cut, and a few bytes that are others."""
    (source,) = written.glob(pattern)
    content = source.read_bytes()[:20_000]
    path = tmp_path / "file"

    @given(
        cut=st.integers(0, len(content)),
        changes=st.lists(st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255)), max_size=6),
    )
    def read(cut: int, changes: list[tuple[int, int]]) -> None:
        damaged = bytearray(content)
        for at, byte in changes:
            damaged[at] = byte
        path.write_bytes(bytes(damaged[:cut]))
        check(KINDS[kind](path))

    read()


@pytest.mark.parametrize("kind", list(KINDS))
def test_what_is_no_file(kind: str, tmp_path: Path) -> None:
    """Absent, a folder, a pipe, a device: nothing, at once."""
    import os

    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "absent", tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        assert KINDS[kind](path).read() == []
