"""TensorBoard event files, as torch's SummaryWriter and TensorFlow write them."""

from __future__ import annotations

import struct
import time
from pathlib import Path

import numpy as np
import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_DOUBLE, DT_FLOAT, DT_INT64
from torch.utils.tensorboard import SummaryWriter

from torchdeck.trainers.files.crc32c import crc32c, masked
from torchdeck.trainers.files.event_file import EventFile


def test_the_checksum_is_castagnolis() -> None:
    """The value of RFC 3720 for 32 zero bytes, and that of the usual check."""
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"123456789") == 0xE3069283


def test_what_torch_writes(tmp_path: Path) -> None:
    """Scalars with step and time, float32; no pictures, texts and histograms, nor Lightning's hp_metric."""
    with SummaryWriter(str(tmp_path)) as writer:
        for step in range(0, 30, 10):
            writer.add_scalar("train/loss", 1.5 / (step + 1), step, walltime=1e9 + step)
            writer.add_scalar("train/lr", 0.25, step, walltime=1e9 + step)
            writer.add_image("picture", np.zeros((3, 200, 200), np.uint8) + step, step)
            writer.add_image(
                "noise", np.random.default_rng(0).integers(0, 255, (3, 400, 400), np.uint8), step
            )
            writer.add_histogram("weights", np.arange(100.0), step)
        writer.add_text("config", "many words")
        writer.add_scalar("hp_metric", -1, 0)
        writer.add_scalar("new", float("inf"), 30, new_style=True)
    (path,) = tmp_path.iterdir()
    reader = EventFile(path)
    found = []
    while True:
        found += reader.read()
        if not reader.more:
            break
    assert [(reading.step, dict(reading.values), reading.time) for reading in found[:3]] == [
        (step, {"train/loss": float(np.float32(1.5 / (step + 1))), "train/lr": 0.25}, 1e9 + step)
        for step in range(0, 30, 10)
    ]
    assert [(reading.step, dict(reading.values)) for reading in found[3:]] == [(30, {"new": float("inf")})]
    assert reader.read() == []
    assert EventFile(path, since=time.time() + 60).read() == []


def record(*values: Summary.Value) -> bytes:
    """A TFRecord of one event at step 7."""
    body = bytes(Event(wall_time=5.0, step=7, summary=Summary(value=values)).SerializeToString())
    length = struct.pack("<Q", len(body))
    return length + struct.pack("<I", masked(length)) + body + struct.pack("<I", masked(body))


@pytest.mark.parametrize(
    ("tensor", "value"),
    [
        (TensorProto(dtype=DT_FLOAT, float_val=[0.5]), 0.5),
        (TensorProto(dtype=DT_FLOAT, tensor_content=struct.pack("<f", 0.5)), 0.5),
        (TensorProto(dtype=DT_DOUBLE, double_val=[0.1]), 0.1),
        (TensorProto(dtype=DT_DOUBLE, tensor_content=struct.pack("<d", 0.1)), 0.1),
        (TensorProto(dtype=DT_FLOAT, float_val=[0.5, 1.5]), None),
        (TensorProto(dtype=DT_INT64, int64_val=[3]), None),
    ],
)
def test_scalars_as_tensors(tmp_path: Path, tensor: TensorProto, value: float | None) -> None:
    """Of one number, float or double."""
    path = tmp_path / "events"
    path.write_bytes(record(Summary.Value(tag="x", tensor=tensor)))
    expected = [] if value is None else [(7, {"x": value}, 5.0)]
    assert [
        (reading.step, dict(reading.values), reading.time) for reading in EventFile(path).read()
    ] == expected


def test_a_file_that_grows_in_the_middle_of_a_record(tmp_path: Path) -> None:
    """Each event once, when it is whole."""
    content = b"".join(record(Summary.Value(tag=f"x{number}", simple_value=number)) for number in range(20))
    path = tmp_path / "events"
    path.touch()
    reader, names = EventFile(path), []
    for at in range(0, len(content), 11):
        with path.open("ab") as file:
            file.write(content[at : at + 11])
        names += [name for reading in reader.read() for name in reading.values]
    assert names == [f"x{number}" for number in range(20)]


def test_nothing_is_read_after_damage(tmp_path: Path) -> None:
    """What came before it counts; one changed bit in a record ends the file."""
    good = record(Summary.Value(tag="good", simple_value=1))
    for bit in range(8 * len(good)):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        path = tmp_path / "events"
        path.write_bytes(good + bad + good)
        reader = EventFile(path)
        assert [list(reading.values) for reading in reader.read()] == [["good"]]
        assert reader.read() == []
        assert not reader.more
