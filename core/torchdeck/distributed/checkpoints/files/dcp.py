"""torch.distributed.checkpoint's files, written and read through its planners and storage.

Its `save` and `load` are not used: ranks would unpickle what the others plan and wrote. A rank reads what its
layout needs without communication. For a save, each rank reports its items to rank 0 in JSON
(`written_plans.py`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
)
from torch.distributed.checkpoint.planner import SavePlan, TensorWriteData, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult

from torchdeck.contract.checkpoints.manifest import FileEntry
from torchdeck.distributed.checkpoints.files.hashed_writer import HashedWriter
from torchdeck.distributed.checkpoints.files.inert_pickle import Name
from torchdeck.distributed.checkpoints.files.metadata import CheckedReader
from torchdeck.distributed.checkpoints.files.tensor_archive import is_dtype
from torchdeck.distributed.checkpoints.peers import Peers, count, listed, text, truth


class Written(NamedTuple):
    """Result of a save on one rank."""

    names: set[str]
    """All tensors from all ranks."""
    files: dict[str, FileEntry]
    """The files of tensors that this rank has written; they are on disk."""


def write(folder: Path, tensors: dict[str, torch.Tensor], peers: Peers) -> Written:
    """Write `tensors` into `folder`: rank r as `__r_….distcp`, rank 0 also `.metadata`, which is not synced.

    Raises:
        CheckpointError: on every rank.
    """
    save = _Save(folder, tensors, peers.rank)
    kept = peers.reduce_scatter("planning the tensors", save.plan, save.choose)
    names = peers.reduce_scatter("writing the tensors", lambda: save.write(kept), save.finish)
    return Written(set(listed(text)(names)), save.written)


class _Save:
    """One save, as one rank sees it; `choose` and `finish` run on rank 0."""

    def __init__(self, folder: Path, tensors: dict[str, torch.Tensor], rank: int) -> None:
        self._tensors = tensors
        self._rank = rank
        self._writer = HashedWriter(folder)
        # tensors that every rank holds whole come from rank 0: replicas of running statistics differ and must
        # not be mixed
        self._planner = DefaultSavePlanner(
            flatten_state_dict=False, flatten_sharded_tensors=False, dedup_save_to_lowest_rank=True
        )
        self._plan = SavePlan([])
        self._chosen: list[SavePlan] = []
        self._metadata = Metadata({})

    @property
    def written(self) -> dict[str, FileEntry]:
        return self._writer.written

    def plan(self) -> Any:
        """Return the items this rank could write."""
        first = self._rank == 0
        self._planner.set_up_planner(self._tensors, self._writer.storage_meta(), is_coordinator=first)
        self._writer.set_up_storage_writer(first)
        self._plan = self._writer.prepare_local_plan(self._planner.create_local_plan())
        return plan_to_json(self._plan)

    def choose(self, plans: list[Any]) -> list[list[int]]:
        """Return the items of each rank's plan that it must write: each is written once."""
        given = [plan_from_json(plan) for plan in plans]
        self._chosen, self._metadata = self._planner.create_global_plan(given)
        replies = []
        for plan, chosen in zip(given, self._chosen, strict=True):
            indices = {item.index for item in chosen.items}
            replies.append([at for at, item in enumerate(plan.items) if item.index in indices])
        return replies

    def write(self, kept: Any) -> Any:
        """Write the items that rank 0 chose."""
        items = [self._plan.items[at] for at in listed(count)(kept)]
        # the storage names files by the index of a plan among those of all ranks
        plans = [replace(self._plan, items=items)] * (self._rank + 1)
        plan = self._planner.finish_plan(self._writer.prepare_global_plan(plans)[self._rank])
        return results_to_json(plan, self._writer.write_data(plan, self._planner).wait())

    def finish(self, results: list[Any]) -> list[list[str]]:
        """Write `.metadata`; return, for every rank, the names of all tensors."""
        found = [
            results_from_json(value, plan, rank)
            for rank, (value, plan) in enumerate(zip(results, self._chosen, strict=True))
        ]
        self._writer.finish(self._metadata, found)
        return [sorted(self._metadata.state_dict_metadata)] * len(results)


def read(folder: Path, files: Collection[str], tensors: dict[str, torch.Tensor], ranks: int = 1) -> None:
    """Fill `tensors` in place from a checkpoint: what the layout of this one of the `ranks` needs."""
    fill(tensors, CheckedReader(folder, files, len(tensors) * ranks))


def fill(tensors: dict[str, torch.Tensor], reader: CheckedReader) -> None:
    """Fill `tensors` in place using `reader`."""
    metadata = reader.read_metadata()
    planner = _load_planner(tensors, metadata)
    reader.set_up_storage_reader(metadata, is_coordinator=True)
    plan = reader.prepare_local_plan(planner.create_local_plan())
    reader.read_data(planner.finish_plan(plan), planner).wait()


def files_needed(
    folder: Path, files: Collection[str], tensors: dict[str, torch.Tensor], ranks: int = 1
) -> set[str]:
    """Return the files of a checkpoint that `read` needs to fill `tensors` on this rank."""
    metadata = CheckedReader(folder, files, len(tensors) * ranks).read_metadata()
    places = metadata.storage_data or {}
    items = _load_planner(tensors, metadata).create_local_plan().items
    return {places[item.storage_index].relative_path for item in items}


def _load_planner(tensors: dict[str, torch.Tensor], metadata: Metadata) -> DefaultLoadPlanner:
    planner = DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
    planner.set_up_planner(tensors, metadata, is_coordinator=True)
    return planner


# JSON form of what a rank writes of a checkpoint and where, validated when read. Pure.

_DIMENSIONS = 64
"""Maximum dimensions of a torch tensor."""
_WHOLE, _SHARD = "whole", "shard"
_FILE = "__{}_[0-9]{{1,9}}[.]distcp"
"""File name of a rank, as torch's storage names it."""


def plan_to_json(plan: SavePlan) -> list[list[Any]]:
    """Convert `plan` to JSON. Raises ValueError if something in it is not a tensor."""
    return [_item_to_json(item) for item in plan.items]


def plan_from_json(value: Any) -> SavePlan:
    """Convert JSON to a plan. Raises ValueError if `value` is not the plan of a rank."""
    return SavePlan([_item(*_fields(item, 8)) for item in listed(_anything)(value)])


def results_to_json(plan: SavePlan, results: Sequence[WriteResult]) -> list[list[Any]]:
    """Return bytes, file, offset and length for each item of `plan`, in order."""
    by_index = {result.index: result for result in results}
    found = [by_index[item.index] for item in plan.items]
    return [
        [
            result.size_in_bytes,
            result.storage_data.relative_path,
            result.storage_data.offset,
            result.storage_data.length,
        ]
        for result in found
    ]


def results_from_json(value: Any, plan: SavePlan, rank: int) -> list[WriteResult]:
    """Return what `rank` wrote of `plan`. Raises ValueError if `value` is something else."""
    found = listed(_anything)(value)
    if len(found) != len(plan.items):
        raise ValueError(f"rank {rank} wrote {len(found)} of {len(plan.items)} tensors")
    name = re.compile(_FILE.format(rank))
    results = []
    for item, fields in zip(plan.items, found, strict=True):
        size, path, offset, length = _fields(fields, 4)
        if not name.fullmatch(text(path)):
            raise ValueError(f"{path!r} is no file of rank {rank}")
        place = _StorageInfo(path, count(offset), count(length))
        results.append(WriteResult(item.index, count(size), place))
    return results


def _item_to_json(item: WriteItem) -> list[Any]:
    data = item.tensor_data
    if data is None:
        raise ValueError(f"{item.index.fqn} is not a tensor")
    index, properties = item.index, data.properties
    return [
        _SHARD if item.type == WriteItemType.SHARD else _WHOLE,
        index.fqn,
        None if index.offset is None else list(index.offset),
        list(data.chunk.offsets),
        list(data.chunk.sizes),
        list(data.size),
        str(properties.dtype).removeprefix("torch."),
        [properties.requires_grad, properties.pin_memory],
    ]


def _item(
    kind: Any, name: Any, offset: Any, offsets: Any, sizes: Any, size: Any, dtype: Any, flags: Any
) -> WriteItem:
    if kind not in (_WHOLE, _SHARD) or not is_dtype(Name("torch", text(dtype))):
        raise ValueError(f"it plans {str(kind)[:40]!r} of {str(dtype)[:40]!r}, which no tensor is")
    chunk, whole = ChunkStorageMetadata(_size(offsets), _size(sizes)), _size(size)
    if not len(chunk.offsets) == len(chunk.sizes) == len(whole) or any(
        start + length > all_of_it
        for start, length, all_of_it in zip(chunk.offsets, chunk.sizes, whole, strict=True)
    ):
        raise ValueError(f"it plans a shard of {text(name)!r} that lies outside of it")
    requires_grad, pin_memory = (truth(flag) for flag in _fields(flags, 2))
    properties = TensorProperties(
        dtype=vars(torch)[dtype], requires_grad=requires_grad, pin_memory=pin_memory
    )
    index = MetadataIndex(text(name), None if offset is None else _size(offset))
    kinds = {_WHOLE: WriteItemType.TENSOR, _SHARD: WriteItemType.SHARD}
    return WriteItem(index, kinds[kind], tensor_data=TensorWriteData(chunk, properties, whole))


def _size(value: Any) -> torch.Size:
    lengths = listed(count)(value)
    if len(lengths) > _DIMENSIONS:
        raise ValueError(f"it has a shape of {len(lengths)} dimensions")
    return torch.Size(lengths)


def _fields(value: Any, number: int) -> list[Any]:
    fields = listed(_anything)(value)
    if len(fields) != number:
        raise ValueError(f"it has {len(fields)} fields where {number} belong")
    return fields


def _anything(value: Any) -> Any:
    return value
