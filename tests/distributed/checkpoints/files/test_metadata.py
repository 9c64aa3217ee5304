"""Reading DCP's pickled metadata without trusting it."""

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)

from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.files import dcp
from torchdeck.distributed.checkpoints.files.metadata import METADATA_NAME, CheckedReader
from torchdeck.distributed.checkpoints.peers import Peers

ALONE = Peers(0, 1, 10.0)
SHARD = "__0_0.distcp"


class Evil:
    """Unpickled freely, makes a file."""

    def __init__(self, target: Path) -> None:
        self._target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._target),)


def _read(folder: Path) -> Metadata:
    return CheckedReader(folder, [SHARD]).read_metadata()


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.uint8]
)
def test_what_dcp_writes_is_read(tmp_path: Path, dtype: torch.dtype) -> None:
    """Tensors of every kind a training has come back bit for bit."""
    tensors = {
        "a": torch.arange(6).reshape(2, 3).to(dtype),
        "empty": torch.zeros(0, 4),
        "scalar": torch.tensor(3.5),
    }
    dcp.write(tmp_path, dict(tensors), ALONE)
    places = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
    dcp.read(tmp_path, [SHARD], places)
    assert all(torch.equal(places[name], tensor) for name, tensor in tensors.items())


def test_a_program_in_the_metadata_does_not_run(tmp_path: Path) -> None:
    """A pickle that would do something is refused by name, and nothing is done."""
    (tmp_path / METADATA_NAME).write_bytes(pickle.dumps(Evil(tmp_path / "made")))
    with pytest.raises(CheckpointError, match=r"asks for posix\.mkdir"):
        _read(tmp_path)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "asked",
    [
        "builtins eval",
        "builtins getattr",
        "os system",
        "torch load",
        "torch.serialization load",
        "torch hub",
        "pathlib os",
    ],
)
def test_only_plain_data_classes_are_allowed(tmp_path: Path, asked: str) -> None:
    """Functions of torch itself are no more allowed than anybody else's."""
    module, name = asked.split()
    (tmp_path / METADATA_NAME).write_bytes(f"c{module}\n{name}\n.".encode())
    with pytest.raises(CheckpointError, match="is refused: it asks for"):
        _read(tmp_path)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"not": "metadata"}, "is not the metadata"),
        (Metadata({}, storage_data=None), "is not the metadata"),
        (Metadata({"x": BytesStorageMetadata()}, storage_data={}), "'x' is not a tensor"),
        (
            Metadata({}, storage_data={MetadataIndex("x"): _StorageInfo("../../secret", 0, 1)}),
            "not the checkpoint's",
        ),
        (
            Metadata({}, storage_data={MetadataIndex("x"): _StorageInfo("/etc/passwd", 0, 1)}),
            "not the checkpoint's",
        ),
    ],
)
def test_metadata_that_points_elsewhere_is_refused(tmp_path: Path, value: object, said: str) -> None:
    """Objects among the tensors, and files that are not the checkpoint's own, are refused."""
    (tmp_path / METADATA_NAME).write_bytes(pickle.dumps(value))
    with pytest.raises(CheckpointError, match=said):
        _read(tmp_path)


def _tensor(*chunks: tuple[list[int], list[int]]) -> dict[str, TensorStorageMetadata]:
    shards = [ChunkStorageMetadata(torch.Size(offset), torch.Size(size)) for offset, size in chunks]
    return {"x": TensorStorageMetadata(TensorProperties(), torch.Size([4, 2]), shards)}


@pytest.mark.parametrize(
    ("tensors", "places", "said"),
    [
        (_tensor(([0, 0], [3, 2])), [], "are not the whole of it"),
        (_tensor(), [], "are not the whole of it"),
        (_tensor(([2, 0], [4, 2])), [], "lies outside of it"),
        (_tensor(([0], [8])), [], "lies outside of it"),
        (_tensor(([0, 0], [4, -2])), [], "a number that is no size"),
        (_tensor(([0, 0], [4, 2])), [(0, 8), (0, 8)], "at the same place"),
        (_tensor(([0, 0], [4, 2])), [(-8, 8)], "a number that is no size"),
        (_tensor(([0, 0], [4, 2])), [(0, 1 << 63)], "a number that is no size"),
        (_tensor(([0] * 65, [1] * 65)), [], "65 dimensions"),
    ],
)
def test_shards_that_cannot_be_are_refused(
    tmp_path: Path, tensors: dict[str, Any], places: list[tuple[int, int]], said: str
) -> None:
    """Those that leave a part of their tensor out, lie beyond it, or stand for several."""
    storage = {MetadataIndex("x", [row, 0]): _StorageInfo(SHARD, *place) for row, place in enumerate(places)}
    (tmp_path / METADATA_NAME).write_bytes(pickle.dumps(Metadata(tensors, storage_data=storage)))
    with pytest.raises(CheckpointError, match=said):
        _read(tmp_path)


def test_packed_shards_are_refused(tmp_path: Path) -> None:
    """DCP would unpack them, however large they become."""
    info = _StorageInfo(SHARD, 0, 8, transform_descriptors=["stream.zstd"])
    (tmp_path / METADATA_NAME).write_bytes(
        pickle.dumps(Metadata({}, storage_data={MetadataIndex("x"): info}))
    )
    with pytest.raises(CheckpointError, match="is packed"):
        _read(tmp_path)


def test_a_shard_beyond_its_file_is_refused(tmp_path: Path) -> None:
    """Where its end would be is said."""
    dcp.write(tmp_path, {"a": torch.zeros(3)}, ALONE)
    content = (tmp_path / SHARD).read_bytes()
    (tmp_path / SHARD).write_bytes(content[:-1])
    with pytest.raises(CheckpointError, match=f"it would end at {len(content)}"):
        dcp.read(tmp_path, [SHARD], {"a": torch.ones(3)})


def test_torn_metadata_is_one_sentence(tmp_path: Path) -> None:
    """Half a pickle is said to be unreadable, with its path."""
    dcp.write(tmp_path, {"a": torch.zeros(3)}, ALONE)
    path = tmp_path / METADATA_NAME
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(CheckpointError, match=r"\.metadata is refused: it is damaged"):
        _read(tmp_path)


def test_more_shards_are_read_if_the_readers_own_ranks_would_write_as_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere they would take too much time and memory."""
    dcp.write(tmp_path, {"a": torch.ones(3)}, ALONE)
    monkeypatch.setattr("torchdeck.distributed.checkpoints.files.metadata.MOST_INSTRUCTIONS", 50)
    with pytest.raises(CheckpointError, match=r"is refused: it has .* at most are read"):
        _read(tmp_path)
    place = torch.zeros(3)
    dcp.read(tmp_path, [SHARD], {"a": place}, ranks=4)
    assert torch.equal(place, torch.ones(3))


def _offsets_of_one_hash(count: int) -> list[tuple[int, int]]:
    """Pairs whose hashes are equal, by how Python hashes tuples (Objects/tupleobject.c)."""
    first, second, start = 11400714785074694791, 14029467366897019727, 2870177450012600261
    whole, inverse = 1 << 64, pow(second, -1, 1 << 64)
    found: list[tuple[int, int]] = []
    at = 0
    while len(found) < count:
        at += 1
        mixed = (start + at * second) % whole
        mixed = ((mixed << 31 | mixed >> 33) * first) % whole
        other = -mixed * inverse % whole
        if other < (1 << 61) - 1:
            found.append((at, other))
    assert len(set(map(hash, found))) == 1
    return found


def test_shards_that_cannot_be_told_apart_quickly_are_refused(tmp_path: Path) -> None:
    """A dict compares what has the same hash one by one, which takes minutes for ten thousand of them."""
    offsets = [torch.Size(offset) for offset in _offsets_of_one_hash(40)]
    places = {MetadataIndex("x", offset, 0): _StorageInfo(SHARD, at, 1) for at, offset in enumerate(offsets)}
    (tmp_path / METADATA_NAME).write_bytes(pickle.dumps(Metadata({}, storage_data=places)))
    with pytest.raises(CheckpointError, match="takes for ever"):
        _read(tmp_path)
