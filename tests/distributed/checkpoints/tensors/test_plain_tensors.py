"""Tensors that lie in a file as they do in memory are read straight into it; torch loads the others."""

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.files import dcp
from torchdeck.distributed.checkpoints.files.tensor_archive import PlainTensor, check_archive
from torchdeck.distributed.checkpoints.peers import Peers

ALONE = Peers(0, 1, 10.0)
SHARD = "__0_0.distcp"
PLAIN = {
    "float32": torch.randn(3, 5),
    "bfloat16": torch.randn(7).bfloat16(),
    "float16": torch.randn(2, 1, 4).half(),
    "float64": torch.randn(1, 2).double(),
    "scalar": torch.tensor(3.5),
    "part of a storage": torch.randn(10)[3:7],
    "expanded": torch.randn(3, 1).expand(3, 4),
    "empty": torch.zeros(0, 4),
}
OTHERS = {
    "int64": torch.arange(6).reshape(2, 3),
    "bool": torch.tensor([True, False]),
    "complex": torch.randn(3, dtype=torch.complex64),
    "transposed": torch.randn(3, 5).t(),
    "channels last": torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
    "negative": torch._neg_view(torch.randn(4)),
}


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What torch.load returned."""
    real, found = torch.load, list[Any]()

    def load(*args: Any, **options: Any) -> Any:
        found.append(real(*args, **options))
        return found[-1]

    monkeypatch.setattr(torch, "load", load)
    return found


def _saved(folder: Path, tensors: dict[str, torch.Tensor]) -> None:
    dcp.write(folder, dict(tensors), ALONE)


def test_torch_loads_the_unusual_ones_alone(tmp_path: Path, loads: list[Any]) -> None:
    """All come back bit for bit, into dense memory."""
    tensors = PLAIN | OTHERS
    _saved(tmp_path, tensors)
    places = {
        name: torch.empty(tensor.shape, dtype=tensor.dtype).fill_(1) for name, tensor in tensors.items()
    }
    dcp.read(tmp_path, [SHARD], places)
    assert all(torch.equal(places[name], tensor) for name, tensor in tensors.items())
    assert len(loads) == len(OTHERS)


@pytest.mark.parametrize(
    "place", [torch.zeros(5, 3).t(), torch.zeros(3, 5).double(), torch.zeros(3, 10)[:, ::2]]
)
def test_memory_of_another_layout_is_filled_by_torch(
    tmp_path: Path, place: torch.Tensor, loads: list[Any]
) -> None:
    """Memory that is not dense, or of another dtype."""
    _saved(tmp_path, {"a": PLAIN["float32"]})
    dcp.read(tmp_path, [SHARD], {"a": place})
    assert torch.equal(place.float(), PLAIN["float32"])
    assert len(loads) == 1


def _archive(tensor: torch.Tensor) -> bytes:
    file = io.BytesIO()
    torch.save(tensor, file)
    return file.getvalue()


def test_the_place_of_the_values_is_that_in_the_archive() -> None:
    content = _archive(PLAIN["float32"])
    found = check_archive(io.BytesIO(content))
    assert isinstance(found, PlainTensor)
    assert (found.dtype, found.shape) == (torch.float32, (3, 5))
    values = torch.frombuffer(bytearray(content), dtype=torch.float32, count=15, offset=found.start)
    assert torch.equal(values.reshape(3, 5), PLAIN["float32"])


def test_values_of_another_byte_order_are_left_to_torch() -> None:
    content = _archive(PLAIN["float32"])
    swapped = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(swapped, "w") as new:
        for info in old.infolist():
            is_order = info.filename.endswith("/byteorder")
            new.writestr(info.filename, b"big" if is_order else old.read(info.filename))
    assert check_archive(swapped) is None


def test_several_tensors_are_left_to_torch() -> None:
    file = io.BytesIO()
    torch.save([torch.zeros(2), torch.zeros(2)], file)
    assert check_archive(file) is None


def test_values_that_would_be_outside_the_archive_are_refused(tmp_path: Path) -> None:
    """The entry's own header says how far from it they begin, which the archive's list does not show."""
    _saved(tmp_path, {"a": torch.randn(4)})
    content = bytearray((tmp_path / SHARD).read_bytes())
    header = content.index(b"/data/0") - len("archive") - 30
    assert content[header : header + 4] == b"PK\x03\x04"
    content[header + 28 : header + 30] = b"\xff\xff"  # the length of its extra field
    (tmp_path / SHARD).write_bytes(content)
    with pytest.raises(CheckpointError, match=rf"{SHARD} is refused: at byte 0, a tensor ends outside of it"):
        dcp.read(tmp_path, [SHARD], {"a": torch.zeros(4)})
