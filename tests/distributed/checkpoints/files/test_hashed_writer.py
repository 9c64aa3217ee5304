"""Files of tensors are hashed while they are written, and large ones are several."""

import errno
import hashlib
import io
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from support.values.checkpoint_files import flip
from torchdeck.contract.checkpoints import threads
from torchdeck.contract.checkpoints.listing import list_checkpoints
from torchdeck.contract.checkpoints.manifest import CheckpointError, FileEntry, read_manifest
from torchdeck.contract.checkpoints.verification import hash_file, verify
from torchdeck.distributed.checkpoints import checkpoint_saving
from torchdeck.distributed.checkpoints.files import hashed_writer
from torchdeck.distributed.checkpoints.files.hashed_writer import HashedFile
from torchdeck.distributed.checkpoints.retention import Retention
from torchdeck.distributed.checkpoints.store import CheckpointStore, TrainState

LIMIT = 30.0


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CheckpointStore]:
    """A store of a process with four cores, to which a thousand bytes are a large file."""
    monkeypatch.setattr(hashed_writer, "_SMALLEST_FILE", 1000)
    monkeypatch.setattr(threads, "usable_cores", lambda: 4)
    opened = CheckpointStore(tmp_path / "saved", Retention(2), "test-run", 1, 0, 1, "single")
    yield opened
    opened.close()


def _trained(seed: int, steps: int = 2) -> TrainState:
    torch.manual_seed(seed)
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(4)), nn.BatchNorm1d(64))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        model(torch.randn(4, 64)).square().mean().backward()
        optimizer.step()
    return TrainState(model, [optimizer])


def _tensors(state: TrainState) -> list[torch.Tensor]:
    parts = state.parts
    return [tensor.detach().clone() for tensor in (*parts.model().values(), *parts.optimizer().values())]


def _shards(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.distcp"))


def _name(descriptor: int) -> str:
    return Path(f"/proc/self/fd/{descriptor}").readlink().name


def test_a_large_state_is_in_several_files(store: CheckpointStore) -> None:
    """Of about equal size; they are loaded bit for bit into other memory, and every hash is right."""
    state = _trained(1)
    folder = store.save(state, 1)
    shards = _shards(folder)
    assert shards == [f"__0_{number}.distcp" for number in range(4)]
    sizes = [(folder / name).stat().st_size for name in shards]
    assert max(sizes) < 2 * min(sizes)
    assert verify(folder) == []
    entries = {name: hash_file(folder / name) for name in read_manifest(folder).files}
    assert dict(read_manifest(folder).files) == entries
    other = _trained(2)
    store.load(folder, other)
    assert all(map(torch.equal, _tensors(state), _tensors(other)))


def test_a_small_state_is_in_one(store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert _shards(store.save(_trained(1), 1)) == ["__0_0.distcp"]


def test_files_of_tensors_are_not_read_again(store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """DCP's description alone is: torch writes it elsewhere."""
    read: list[str] = []

    def counted(path: Path) -> FileEntry:
        read.append(path.name)
        return hash_file(path)

    monkeypatch.setattr(checkpoint_saving, "hash_file", counted)
    store.save(_trained(1), 1)
    assert read == [".metadata"]


def test_all_files_are_synced_before_it_is_complete(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the manifest is the last of them."""
    synced: list[str] = []
    real = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(_name(descriptor))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    folder = store.save(_trained(1), 1)
    committed = next(at for at, name in enumerate(synced) if name.startswith(".manifest.json"))
    assert set(read_manifest(folder).files) <= set(synced[:committed])


def test_files_are_written_at_the_same_time(store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits, before it is synced, until all four are at that point."""
    together = threading.Barrier(4)
    real = HashedFile.sync

    def sync(file: HashedFile) -> FileEntry:
        if threading.current_thread() is not threading.main_thread():
            together.wait(LIMIT)
        return real(file)

    monkeypatch.setattr(HashedFile, "sync", sync)
    assert verify(store.save(_trained(1), 1)) == []


def test_a_file_that_cannot_be_written_fails_the_save(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it is not this thread's: the reason is named, nothing is left, and the one before is sound."""
    before = store.save(_trained(1), 1)
    real = os.fsync

    def full(descriptor: int) -> None:
        if _name(descriptor) == "__0_2.distcp":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match=r"step_00000002 could not be saved .*No space left on device"):
        store.save(_trained(1), 2)
    assert [info.path for info in list_checkpoints(before.parent)] == [before]
    assert verify(before) == []
    monkeypatch.undo()
    assert verify(store.save(_trained(1), 2)) == []


def test_damage_in_any_of_them_is_refused_and_changes_nothing(store: CheckpointStore) -> None:
    folder = store.save(_trained(1), 1)
    other = _trained(2)
    before = _tensors(other)
    for name in _shards(folder):
        flip(folder / name, -1)
        with pytest.raises(CheckpointError, match=f"{name} is damaged: SHA-256"):
            store.load(folder, other)
        flip(folder / name, -1)
    assert all(map(torch.equal, before, _tensors(other)))
    store.load(folder, other)


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_what_is_written_is_hashed(parts: list[bytes]) -> None:
    """In any pieces, of any kind that torch.save writes."""
    file = io.BytesIO()
    hashed = HashedFile(file)
    kinds: list[Any] = [bytes, bytearray, memoryview]
    for number, part in enumerate(parts):
        assert hashed.write(kinds[number % 3](part)) == len(part)
    content = b"".join(parts)
    assert (file.getvalue(), hashed.tell()) == (content, len(content))
    assert hashed.entry == FileEntry(len(content), hashlib.sha256(content).hexdigest())
