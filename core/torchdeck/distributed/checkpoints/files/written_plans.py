"""JSON form of what a rank writes of a checkpoint and where, validated when read. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import SavePlan, TensorWriteData, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult

from torchdeck.distributed.checkpoints.answers import count, listed, text, truth
from torchdeck.distributed.checkpoints.files.inert_pickle import Name
from torchdeck.distributed.checkpoints.files.tensor_archive import is_dtype

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
        raise ValueError(f"a shape of {len(lengths)} dimensions stands in it")
    return torch.Size(lengths)


def _fields(value: Any, number: int) -> list[Any]:
    fields = listed(_anything)(value)
    if len(fields) != number:
        raise ValueError(f"it has {len(fields)} fields where {number} belong")
    return fields


def _anything(value: Any) -> Any:
    return value
