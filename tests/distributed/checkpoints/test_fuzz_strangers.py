"""Checkpoints of strangers: manifests, metadata, headers and archives are read, or refused."""

import hashlib
import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)

from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from support.fuzz.reader_process import Reader
from support.fuzz.refusals import refused
from torchdeck.contract.checkpoints.listing import list_checkpoints
from torchdeck.contract.checkpoints.manifest import MANIFEST_NAME, CheckpointError, FileEntry, Manifest
from torchdeck.contract.checkpoints.verification import verify
from torchdeck.distributed.checkpoints.files.inert_pickle import read_pickle
from torchdeck.distributed.checkpoints.files.metadata import METADATA_NAME, CheckedReader
from torchdeck.distributed.checkpoints.files.rank_file import read_rank_file
from torchdeck.distributed.exchange.exchanging import open_weights
from torchdeck.distributed.exchange.safetensors_file import SafetensorsFile

SHARD = "__0_0.distcp"
TENSOR = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
OPCODES = bytes(code[0] for code in vars(pickle).values() if isinstance(code, bytes) and len(code) == 1)


def manifest() -> dict[str, Any]:
    entry = FileEntry(1, hashlib.sha256(b"x").hexdigest())
    said = Manifest(
        step=1,
        world_size=1,
        strategy="single",
        run_id="r",
        attempt=1,
        created=1.0,
        seconds=0.5,
        position={"v": 1},
        model_fingerprint="f",
        files={"x": entry},
        metrics={"loss": 1.5},
    )
    value: dict[str, Any] = json.loads(said.render())
    return value


def read_manifests(content: bytes, place: Path) -> None:
    """As it is, and with a hash of its own that fits."""
    folder = place / "step_00000001"
    folder.mkdir()
    (folder / "x").write_bytes(b"x")
    (folder / MANIFEST_NAME).write_bytes(content)
    assert verify(folder) is not None
    list_checkpoints(place)
    try:
        value = json.loads(content)
        value.pop("sha256", None)
        text = json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False).encode("utf-8") + b"\n"
        value["sha256"] = hashlib.sha256(text).hexdigest()
        sealed = json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False).encode("utf-8") + b"\n"
    except (ValueError, AttributeError, TypeError, RecursionError):
        return
    (folder / MANIFEST_NAME).write_bytes(sealed)
    assert verify(folder) is not None
    for found in list_checkpoints(place):
        assert found.complete or found.why


def read_metadata(content: bytes, place: Path) -> None:
    (place / METADATA_NAME).write_bytes(content)
    (place / SHARD).write_bytes(b"x" * 100)
    refused(CheckedReader(place, [SHARD]).read_metadata, CheckpointError)
    refused(lambda: read_pickle(content, lambda _: True), ValueError)


def read_header(content: bytes, place: Path) -> None:
    path = place / "x.safetensors"
    path.write_bytes(struct.pack("<Q", len(content)) + content + bytes(4))
    refused(
        lambda: [SafetensorsFile(path).read(name) for name in SafetensorsFile(path).specs], CheckpointError
    )
    path.write_bytes(content)
    refused(lambda: SafetensorsFile(path), CheckpointError)


def read_archive(content: bytes, place: Path) -> None:
    (place / "x.pt").write_bytes(content)
    refused(lambda: open_weights(place / "x.pt", 1), CheckpointError)
    refused(lambda: read_rank_file(place / "x.pt"), CheckpointError)


def metadata() -> bytes:
    shape = torch.Size([2, 3])
    chunk = ChunkStorageMetadata(torch.Size([0, 0]), shape)
    tensor = TensorStorageMetadata(TensorProperties(dtype=torch.float32), shape, [chunk])
    places = {MetadataIndex("a", torch.Size([0, 0]), 0): _StorageInfo(SHARD, 0, 100)}
    return pickle.dumps(Metadata({"a": tensor}, storage_data=places))


def archive(names: tuple[str, ...] = ()) -> bytes:
    """What torch.save writes, and more entries with these names."""
    file = io.BytesIO()
    torch.save({"weight": torch.ones(3), "bias": torch.zeros(2)}, file)
    with zipfile.ZipFile(file, "a") as more:
        for name in names:
            more.writestr(name, b"x" * 12)
    return file.getvalue()


@st.composite
def pickles(draw: st.DrawFn, sound: bytes) -> bytes:
    """A pickle with some of its instructions replaced or put in, or instructions alone."""
    content = bytearray(sound) if draw(st.integers(0, 3)) else bytearray(draw(st.binary(max_size=40)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(content)))
        content[at : at + draw(st.integers(0, 3))] = bytes([draw(st.sampled_from(OPCODES))])
    return bytes(content)


def archives() -> st.SearchStrategy[bytes]:
    content = archive()
    pickled = zipfile.ZipFile(io.BytesIO(content)).read("archive/data.pkl")
    others = ["archive/DATA/0", "archive/data.PKL", "archive/Data/1", "a\0b", "/x", "../x", "b/data.pkl"]
    names = st.lists(st.sampled_from(others), unique=True)

    def with_pickle(edited: bytes) -> bytes:
        return content.replace(pickled, edited[: len(pickled)].ljust(len(pickled), b"."))

    return hostile.damaged(content) | pickles(pickled).map(with_pickle) | names.map(tuple).map(archive)


Case = tuple[Callable[[bytes, Path], None], Callable[[], st.SearchStrategy[bytes]]]
CASES: dict[str, Case] = {
    "manifest": (read_manifests, lambda: hostile.documents(manifest(), {**manifest(), "node": "a"})),
    "metadata": (read_metadata, lambda: pickles(metadata()) | hostile.damaged(metadata())),
    "header": (read_header, lambda: hostile.documents({"a": TENSOR, "__metadata__": {"format": "pt"}})),
    "archive": (read_archive, archives),
}


def read_each(content: bytes, place: Path) -> None:
    """The first byte says as what."""
    list(CASES.values())[content[0]][0](content[1:], place)


def test_a_sample_of_all() -> None:
    """In one process, as torch takes long to import."""
    kinds = enumerate(documents() for _, documents in CASES.values())
    read_all(read_each, st.one_of([cases.map(bytes([kind]).__add__) for kind, cases in kinds]))


@pytest.mark.processes
@pytest.mark.soak
@pytest.mark.parametrize(("reader", "documents"), CASES.values(), ids=CASES)
def test_any(reader: Reader, documents: Callable[[], st.SearchStrategy[bytes]]) -> None:
    read_all(reader, documents())
