"""A checkpoint as runs save it: torch.distributed.checkpoint's shards and their accompanying files."""

from __future__ import annotations

import io
import queue
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint import metadata as dcp_metadata
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.metadata import MetadataIndex
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItem
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from torchdeck.contract.atomic import sync_file, write_bytes
from torchdeck.contract.checkpoints.manifest import (
    MANIFEST_NAME,
    CheckpointError,
    FileEntry,
    Manifest,
    read_manifest,
)
from torchdeck.contract.checkpoints.verification import hash_file, verify_files
from torchdeck.distributed.checkpoints.files import dcp
from torchdeck.distributed.checkpoints.files.metadata import METADATA_NAME, CheckedReader
from torchdeck.distributed.checkpoints.files.rank_file import rank_file_name, read_rank_file
from torchdeck.distributed.checkpoints.files.trainer_file import TRAINER_NAME, read_trainer_file
from torchdeck.distributed.checkpoints.peers import Peers
from torchdeck.distributed.checkpoints.snapshot import MODEL_PREFIX
from torchdeck.distributed.checkpoints.tensors.model_state import model_fingerprint
from torchdeck.distributed.exchange.source_checkpoint import Progress, Tensors, TensorSpec, WholeCheckpoint

LARGEST_FILE = 512 << 20
"""Bytes of tensors in one file, which are in memory while it is written; a larger tensor has its own file."""


def verified_manifest(folder: Path, progress: Progress) -> Manifest:
    """Return the manifest of `folder` after hashing every file in it.

    Raises:
        CheckpointError: something is damaged, or is on another node.
    """
    manifest = read_manifest(folder)
    elsewhere = {
        entry.node
        for name, entry in manifest.files.items()
        if entry.node != manifest.node and not (folder / name).exists()
    }
    if elsewhere:
        raise CheckpointError(
            f"{folder} holds the part of {manifest.node}, and the checkpoint's other files lie on "
            f"{', '.join(sorted(map(str, elsewhere)))}: copy the files of that folder there beside these"
        )
    done = 0
    for name, entry in manifest.files.items():
        problems = verify_files(folder, manifest, [name])
        if problems:
            raise CheckpointError(problems[0])
        done += entry.size
        progress("checking", done, manifest.size)
    return manifest


def open_sharded(folder: Path, manifest: Manifest) -> WholeCheckpoint:
    """Open the checkpoint in `folder`, whose hashes were checked against `manifest`.

    Raises:
        CheckpointError: its descriptions contradict each other, or it contains more than data.
    """
    trainer = read_trainer_file(folder)
    if model_fingerprint(trainer.model) != manifest.model_fingerprint or trainer.step != manifest.step:
        raise CheckpointError(f"{folder}: its manifest and its {TRAINER_NAME} are not of the same save")
    trainer.check_sizes(manifest.size)
    tensors = ShardedTensors(folder, manifest)
    for name, (shape, dtype) in trainer.model.items():
        spec = tensors.specs.get(MODEL_PREFIX + name)
        if spec is None or spec.shape != shape or spec.dtype != getattr(torch, dtype, None):
            raise CheckpointError(f"{folder}: {TRAINER_NAME} and {METADATA_NAME} do not agree on {name}")
    if manifest.world_size > len(manifest.files):
        raise CheckpointError(f"{folder} was saved by {manifest.world_size} ranks and lacks files of them")
    names = [rank_file_name(rank) for rank in range(manifest.world_size)]
    there = manifest.files.keys() >= set(names)
    ranks = [read_rank_file(folder / name) for name in names] if there else []
    return WholeCheckpoint(manifest, trainer, tensors, ranks)


class ShardedTensors:
    """Tensors of a verified checkpoint, assembled from shards one at a time."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._reader = _CachedReader(folder, manifest.files)
        self._alone = Peers(0, 1, timeout=0.0)
        self.specs = {
            name: self._spec(folder, name, entry, manifest.size)
            for name, entry in self._reader.read_metadata().state_dict_metadata.items()
        }

    def _spec(self, folder: Path, name: str, entry: Any, largest: int) -> TensorSpec:
        spec = TensorSpec(tuple(entry.size), entry.properties.dtype)
        if any(type(length) is not int or length < 0 for length in spec.shape) or spec.size > largest:
            raise CheckpointError(f"{folder / METADATA_NAME}: {name} cannot have the shape {spec.shape}")
        return spec

    def read(self, name: str) -> torch.Tensor:
        spec = self.specs[name]
        tensor = torch.empty(spec.shape, dtype=spec.dtype)
        self._alone.step(f"reading {name}", lambda: dcp.fill({name: tensor}, self._reader))
        return tensor


class _CachedReader(CheckedReader):
    """Reads `.metadata` once, however many tensors are read one by one."""

    def __init__(self, folder: Path, files: Mapping[str, FileEntry]) -> None:
        super().__init__(folder, files)
        self._once: dcp_metadata.Metadata | None = None

    def read_metadata(self, *args: Any, **options: Any) -> dcp_metadata.Metadata:
        if self._once is None:
            self._once = super().read_metadata(*args, **options)
        return self._once


def write_sharded(whole: WholeCheckpoint, folder: Path, parts: int, progress: Progress) -> Manifest:
    """Write `whole` into the empty `folder` as a checkpoint; it is complete and on disk when this returns.

    Args:
        whole: checkpoint with a state of each rank.
        folder: destination.
        parts: number of tensor files, to which whole tensors are assigned by size.
        progress: called with the progress.

    Raises:
        CheckpointError: a tensor of the source does not match its description.
        OSError: the disk is full or gone.
    """
    _write_tensors(whole.tensors, folder, parts, progress)
    (folder / TRAINER_NAME).write_bytes(whole.trainer.render())
    for rank, state in enumerate(whole.ranks):
        buffer = io.BytesIO()
        torch.save(dict(state), buffer)
        (folder / rank_file_name(rank)).write_bytes(buffer.getvalue())
    return commit(folder, whole.manifest, model_fingerprint(whole.trainer.model))


def commit(
    folder: Path, said: Manifest, fingerprint: str, known: Mapping[str, FileEntry] | None = None
) -> Manifest:
    """Sync and hash the files in `folder`, and write its manifest; `known` files need neither.

    Args:
        folder: contains these files and nothing else.
        said: run, step, position and metrics.
        fingerprint: fingerprint of the model in the files.
        known: files that are on disk and hashed.
    """
    files = dict(known or {})
    for path in sorted(folder.iterdir()):
        if path.name not in files:
            sync_file(path)
            files[path.name] = hash_file(path)
    # all files are here, wherever those of the source were
    manifest = replace(said, files=files, model_fingerprint=fingerprint, version=Manifest.version, node=None)
    write_bytes(folder / MANIFEST_NAME, manifest.render())
    return manifest


def _write_tensors(tensors: Tensors, folder: Path, parts: int, progress: Progress) -> None:
    """Write as `parts` ranks would together, in one process and one tensor at a time."""
    writer = _SmallFilesWriter(folder, sync_files=False)
    writer.set_up_storage_writer(is_coordinator=True)
    advance = Advance("writing", sum(spec.size for spec in tensors.specs.values()), progress)
    planners, plans = [], []
    for part in _dealt(tensors.specs, parts):
        planner = _LazyPlanner(tensors, advance)
        planner.set_up_planner({name: _announced(tensors.specs[name]) for name in part}, is_coordinator=True)
        planners.append(planner)
        plans.append(writer.prepare_local_plan(planner.create_local_plan()))
    plans, metadata = planners[0].create_global_plan(plans)
    results = [
        writer.write_data(_finished(planner, plan), planner).wait()
        for planner, plan in zip(planners, writer.prepare_global_plan(plans), strict=True)
    ]
    writer.finish(metadata, results)


class _SmallFilesWriter(FileSystemWriter):
    """Starts a new file of a rank periodically: DCP keeps a file's tensors in memory until it is closed."""

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        files: queue.Queue[tuple[Path, str, list[WriteItem]]] = queue.Queue()
        for number, items in enumerate(_in_groups(plan.items)):
            name = f"{plan.storage_data.prefix}{number}.distcp"
            files.put((Path(self.path) / name, name, items))
        written: Future[list[WriteResult]] = self._write_data(planner, files)
        return written


def _in_groups(items: Sequence[WriteItem]) -> list[list[WriteItem]]:
    """Return `items` in order, in groups of at most `LARGEST_FILE` bytes, or a single item."""
    groups: list[list[WriteItem]] = [[]]
    filled = 0
    for item in items:
        size = item.tensor_storage_size() or 0
        if groups[-1] and filled + size > LARGEST_FILE:
            groups.append([])
            filled = 0
        groups[-1].append(item)
        filled += size
    return groups


class _LazyPlanner(DefaultSavePlanner):
    """Reads a tensor at the moment when it is written."""

    def __init__(self, tensors: Tensors, advance: Advance) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self._tensors, self._advance = tensors, advance

    def lookup_object(self, index: MetadataIndex) -> torch.Tensor:
        tensor = self._tensors.read(index.fqn)
        self._advance(tensor.nbytes)
        return tensor


class Advance:
    """Accumulates progress."""

    def __init__(self, what: str, total: int, progress: Progress) -> None:
        self._what, self._total, self._progress, self._done = what, total, progress, 0

    def __call__(self, count: int) -> None:
        self._done += count
        self._progress(self._what, self._done, self._total)


def _announced(spec: TensorSpec) -> torch.Tensor:
    """Return a tensor with the spec's properties and no memory."""
    return torch.empty(spec.shape, dtype=spec.dtype, device="meta")


def _finished(planner: DefaultSavePlanner, plan: SavePlan) -> SavePlan:
    finished: SavePlan = planner.finish_plan(plan)
    return finished


def _dealt(specs: Mapping[str, TensorSpec], parts: int) -> list[list[str]]:
    """Return names distributed over `parts` files, largest first to the least full."""
    dealt: list[list[str]] = [[] for _ in range(parts)]
    sizes = [0] * parts
    for name in sorted(specs, key=lambda name: (-specs[name].size, name)):
        least = min(range(parts), key=lambda part: sizes[part])
        dealt[least].append(name)
        sizes[least] += specs[name].size
    return dealt
