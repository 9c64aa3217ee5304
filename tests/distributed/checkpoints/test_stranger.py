"""A stranger's checkpoint: every hash fits, and it wants to run code, or to exhaust the machine."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from torchdeck.contract.checkpoints.choose import choose_checkpoint
from torchdeck.contract.checkpoints.manifest import (
    MANIFEST_NAME,
    CheckpointError,
    FileEntry,
    Manifest,
    read_manifest,
)
from torchdeck.contract.checkpoints.verification import hash_file, verify
from torchdeck.distributed import CheckpointManager, auto_resume
from torchdeck.distributed.checkpoints.files.metadata import METADATA_NAME, CheckedReader
from torchdeck.distributed.checkpoints.files.trainer_file import read_trainer_file
from torchdeck.distributed.exchange import exchanging
from torchdeck.distributed.exchange.single import open_single

Plant = Callable[[Path, Path], None]
"""Puts something into a checkpoint's folder that would make a marker, if it ran."""


class Program:
    """Unpickled freely, it makes a folder."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._marker),)


def _training() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    return model, torch.optim.AdamW(model.parameters())


def _seal(folder: Path) -> None:
    """Make all hashes fit again."""
    manifest = read_manifest(folder)
    files = {name: hash_file(folder / name) for name in manifest.files}
    (folder / MANIFEST_NAME).write_bytes(replace(manifest, files=files).render())


def _quiet(*_: object) -> None:
    return


def _to_single(source: Path, target: Path, *, export: bool, trusted: bool = False) -> None:
    exchanging.to_single(
        source,
        target,
        export=export,
        optimizer=True,
        dtype=None,
        max_file=1 << 30,
        trusted=trusted,
        force=False,
        progress=_quiet,
    )


def _to_sharded(source: Path, target: Path) -> None:
    exchanging.to_sharded(source, target, parts=None, trusted=False, force=False, progress=_quiet)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a checkpoint of one rank, and the same as a single file."""
    folder = tmp_path_factory.mktemp("honest")
    model, optimizer = _training()
    torch.autograd.backward(model(torch.ones(1, 3)).sum())
    optimizer.step()
    with CheckpointManager(folder / "run") as checkpoints:
        checkpoints.save(1, model, optimizer)
    _to_single(folder / "run" / "step_00000001", folder / "single", export=False)
    return folder


def _pickle_in(name: str) -> Plant:
    def plant(folder: Path, marker: Path) -> None:
        (folder / name).write_bytes(pickle.dumps(Program(marker), protocol=2))

    return plant


def _torch_save_in(name: str) -> Plant:
    def plant(folder: Path, marker: Path) -> None:
        torch.save({"rng": Program(marker), "buffers": {}}, folder / name)

    return plant


def _beside_true_metadata(folder: Path, marker: Path) -> None:
    value = pickle.loads((folder / METADATA_NAME).read_bytes())  # noqa: S301 - our own
    value.planner_data = Program(marker)
    (folder / METADATA_NAME).write_bytes(pickle.dumps(value))


def _among_tensors(folder: Path, marker: Path) -> None:
    value = pickle.loads((folder / METADATA_NAME).read_bytes())  # noqa: S301 - our own
    torch.save(Program(marker), folder / "__0_0.distcp")
    size = (folder / "__0_0.distcp").stat().st_size
    for entry in value.storage_data.values():
        entry.offset, entry.length = 0, size
    (folder / METADATA_NAME).write_bytes(pickle.dumps(value))


SHARDED: dict[str, Plant] = {
    "metadata": _pickle_in(METADATA_NAME),
    "metadata beside the true one": _beside_true_metadata,
    "shard": _pickle_in("__0_0.distcp"),
    "shard, at the true places": _among_tensors,
    "rank file": _pickle_in("rank_00000.pt"),
    "rank file by torch.save": _torch_save_in("rank_00000.pt"),
    "trainer.json": _pickle_in("trainer.json"),
}
SINGLE: dict[str, Plant] = {
    name: _pickle_in(name)
    for name in ("model.safetensors", "optimizer.safetensors", "ranks.safetensors", "model.json")
}


@pytest.mark.parametrize("plant", SHARDED.values(), ids=SHARDED)
def test_a_program_in_a_checkpoint_never_runs(honest: Path, tmp_path: Path, plant: Plant) -> None:
    """Resuming by `auto` or by path, exporting and converting all refuse it with a sentence."""
    shutil.copytree(honest / "run", tmp_path / "run")
    folder, marker = tmp_path / "run" / "step_00000001", tmp_path / "marker"
    plant(folder, marker)
    _seal(folder)
    assert verify(folder) == []
    assert choose_checkpoint(tmp_path, str(folder)).folder == folder
    with pytest.raises(CheckpointError, match="loading checkpoint") as refused:
        auto_resume(tmp_path / "run", *_training())
    assert "weights_only" not in str(refused.value)  # torch's advice is to read it all the same
    with CheckpointManager(tmp_path / "run") as checkpoints, pytest.raises(CheckpointError):
        checkpoints.restore(*_training())
    for export in (True, False):
        with pytest.raises(CheckpointError):
            _to_single(folder, tmp_path / "out", export=export)
    with pytest.raises(CheckpointError):
        _to_sharded(folder, tmp_path / "out")
    assert not marker.exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("plant", SINGLE.values(), ids=SINGLE)
def test_a_program_in_a_single_file_never_runs(honest: Path, tmp_path: Path, plant: Plant) -> None:
    """No file of that layout is a pickle, and none is read as one."""
    shutil.copytree(honest / "single", tmp_path / "single")
    plant(tmp_path / "single", tmp_path / "marker")
    _seal(tmp_path / "single")
    for convert in (_to_sharded, lambda source, target: _to_single(source, target, export=True)):
        with pytest.raises(CheckpointError):
            convert(tmp_path / "single", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["single"]


@pytest.mark.parametrize("trusted", [False, True])
def test_a_program_among_weights_never_runs(tmp_path: Path, trusted: bool) -> None:
    """A .pt file is read as weights alone; --trust, which is about DeepSpeed's folders, changes nothing."""
    for number, value in enumerate(({"weight": Program(tmp_path / "marker")}, Program(tmp_path / "marker"))):
        for name, write in (("zip", torch.save), ("pickle", _dump)):
            file = tmp_path / f"{name}{number}.pt"
            write(value, file)
            with pytest.raises(CheckpointError, match="cannot be read as weights alone"):
                _to_single(file, tmp_path / "out", export=True, trusted=trusted)
    assert not (tmp_path / "marker").exists()


def test_a_program_in_a_folder_of_deepspeeds_does_not_run_untrusted(tmp_path: Path) -> None:
    """Its pickles are not touched without --trust, which the sentence names."""
    (tmp_path / "theirs" / "global_step1").mkdir(parents=True)
    (tmp_path / "theirs" / "latest").write_text("global_step1")
    for name in ("mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt"):
        _dump(Program(tmp_path / "marker"), tmp_path / "theirs" / "global_step1" / name)
    for source in (tmp_path / "theirs", tmp_path / "theirs" / "global_step1"):
        with pytest.raises(CheckpointError, match="--trust"):
            _to_sharded(source, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["theirs"]


def _dump(value: object, file: Path) -> None:
    file.write_bytes(pickle.dumps(value, protocol=2))


def _trainer(change: Callable[[dict[str, Any]], None]) -> Plant:
    def plant(folder: Path, _: Path) -> None:
        value = json.loads((folder / "trainer.json").read_bytes())
        change(value)
        (folder / "trainer.json").write_text(json.dumps(value))

    return plant


def _huge_optimizer_state(value: dict[str, Any]) -> None:
    value["optimizers"][0]["state"]["weight"]["exp_avg"] |= {"shape": [10**15], "like_parameter": False}


def _huge_metadata(folder: Path, _: Path) -> None:
    value = pickle.loads((folder / METADATA_NAME).read_bytes())  # noqa: S301 - our own
    for entry in value.state_dict_metadata.values():
        assert isinstance(entry, TensorStorageMetadata)
        entry.size = torch.Size([10**15])
    (folder / METADATA_NAME).write_bytes(pickle.dumps(value))


def _outside(folder: Path, _: Path) -> None:
    value = pickle.loads((folder / METADATA_NAME).read_bytes())  # noqa: S301 - our own
    for entry in value.storage_data.values():
        entry.relative_path = "../../secret"
    (folder / METADATA_NAME).write_bytes(pickle.dumps(value))


def _deep(folder: Path, _: Path) -> None:
    (folder / "trainer.json").write_text('{"v":1,"step":1,"extra":' + "[" * 200_000 + "]" * 200_000 + "}")


ABSURD: dict[str, tuple[Plant, str]] = {
    "optimizer state": (_trainer(_huge_optimizer_state), "exp_avg of weight cannot have the shape"),
    "optimizer kind": (
        _trainer(lambda value: value["optimizers"][0].update(kind="os.system")),
        "optimizer is os.system, this run's is AdamW",
    ),
    "metadata": (_huge_metadata, "loading checkpoint"),
    "a path outside": (_outside, "points to a file that is not the checkpoint's"),
    "deep JSON": (_deep, "is not a checkpoint's trainer state"),
}


@pytest.mark.parametrize(("plant", "said"), ABSURD.values(), ids=ABSURD)
def test_absurd_claims_are_refused(honest: Path, tmp_path: Path, plant: Plant, said: str) -> None:
    """Nothing is allocated by what a file merely says, nothing read from elsewhere, no depth exhausts."""
    shutil.copytree(honest / "run", tmp_path / "run")
    folder = tmp_path / "run" / "step_00000001"
    plant(folder, tmp_path)
    _seal(folder)
    with pytest.raises(CheckpointError, match=said):
        auto_resume(tmp_path / "run", *_training())
    if "kind" not in said and "AdamW" not in said:
        with pytest.raises(CheckpointError):
            _to_single(folder, tmp_path / "out", export=True)


def test_a_billion_ranks_are_refused(honest: Path, tmp_path: Path) -> None:
    """A checkpoint has a file of each of its ranks."""
    folder = shutil.copytree(honest / "run" / "step_00000001", tmp_path / "step_00000001")
    (folder / MANIFEST_NAME).write_bytes(replace(read_manifest(folder), world_size=10**12).render())
    with pytest.raises(CheckpointError, match="was saved by 1000000000000 ranks and lacks files"):
        _to_single(folder, tmp_path / "out", export=True)


def test_a_tensor_of_a_rank_is_not_read_again_and_again(honest: Path, tmp_path: Path) -> None:
    """A short text could name a large tensor any number of times."""
    folder = shutil.copytree(honest / "single", tmp_path / "single")
    said = json.loads((folder / "model.json").read_bytes())
    state = said["ranks"][0]["object"]["rng"]["object"]
    state["cuda"] = state["torch"]
    (folder / "model.json").write_text(json.dumps(said))
    _seal(folder)
    with pytest.raises(CheckpointError, match="does not describe its ranks"):
        _to_sharded(folder, tmp_path / "out")


def test_a_text_of_absurd_size_is_not_read(honest: Path, tmp_path: Path) -> None:
    """A sparse file takes no room on the disk, and all of it in memory."""
    shutil.copytree(honest / "run" / "step_00000001", tmp_path / "run")
    shutil.copytree(honest / "single", tmp_path / "single")
    run, single, size = tmp_path / "run", tmp_path / "single", 1 << 40
    for file in (run / "trainer.json", run / METADATA_NAME, single / "model.json"):
        os.truncate(file, size)
    readers: list[Callable[[], object]] = [
        lambda: read_trainer_file(run),
        lambda: CheckedReader(run, []).read_metadata(),
        lambda: open_single(single, read_manifest(single)),
    ]
    for read in readers:  # once hashed, which takes its time
        with pytest.raises(CheckpointError, match="is too large: more than 256 MiB"):
            read()


def test_a_manifest_of_absurd_size_is_refused_without_hashing(honest: Path, tmp_path: Path) -> None:
    """Sizes are compared before anything is read."""
    folder = shutil.copytree(honest / "run" / "step_00000001", tmp_path / "step_00000001")
    manifest = read_manifest(folder)
    files = {**manifest.files, "__0_0.distcp": FileEntry(10**15, "0" * 64)}
    (folder / MANIFEST_NAME).write_bytes(Manifest(**{**vars(manifest), "files": files}).render())
    with pytest.raises(CheckpointError, match=f"its manifest says {10**15}"):
        choose_checkpoint(tmp_path, str(folder))
    with pytest.raises(CheckpointError, match=f"its manifest says {10**15}"):
        _to_single(folder, tmp_path / "out", export=True)


def _safetensors(header: object, data: bytes = b"", *, length: int | None = None) -> bytes:
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 7,
        _safetensors({}, length=2**63),
        _safetensors({}, length=9),
        _safetensors([]),
        _safetensors(b"[" * 100_000),
        _safetensors({"a": {"dtype": "F32", "shape": [10**15], "data_offsets": [0, 4]}}, bytes(4)),
        _safetensors({"a": {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 0]}}),
        _safetensors({"a": {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]}}, bytes(4)),
        _safetensors({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, bytes(8)),
        _safetensors({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(5)),
        _safetensors({"a": {"dtype": "object", "shape": [1], "data_offsets": [0, 4]}}, bytes(4)),
        _safetensors({"a": {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]}}, bytes(4)),
        _safetensors({"a": 1}),
        _safetensors(b'{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"a":{}}', bytes(1)),
    ],
)
def test_a_safetensors_file_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    """Whatever its header says: a sentence, before anything is allocated."""
    (tmp_path / "weights.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match="is not a safetensors file"):
        _to_sharded(tmp_path / "weights.safetensors", tmp_path / "out")
    assert not (tmp_path / "out").exists()
