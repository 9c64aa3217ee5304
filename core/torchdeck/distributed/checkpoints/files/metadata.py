"""Reads torch.distributed.checkpoint's files as untrusted data.

`.metadata` is a pickle. It is read as data, from which DCP's metadata is built by value: only tensors, whose
shards must be within them and in the checkpoint's own files. Each shard is a small file of `torch.save`,
checked before DCP has torch read it with `weights_only=True`.
"""

from __future__ import annotations

import ctypes
import io
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import torch
from torch.distributed.checkpoint import metadata
from torch.distributed.checkpoint.filesystem import FileSystemReader, _StorageInfo
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner, ReadItem
from torch.futures import Future

from torchdeck.contract.checkpoints.manifest import CheckpointError, read_document
from torchdeck.contract.checkpoints.threads import in_threads
from torchdeck.distributed.checkpoints.files.device_threads import as_here
from torchdeck.distributed.checkpoints.files.inert_pickle import (
    MOST_INSTRUCTIONS,
    Name,
    Record,
    no_garbage_collections,
    read_pickle,
)
from torchdeck.distributed.checkpoints.files.tensor_archive import PlainTensor, Span, check_archive, is_dtype

METADATA_NAME = ".metadata"
T = TypeVar("T")


def _name(item: type) -> Name:
    return Name(item.__module__, item.__qualname__)


_SIZE = Name("torch", "Size")
_ALLOWED = frozenset(
    {
        *map(
            _name,
            (
                metadata.Metadata,
                metadata.MetadataIndex,
                metadata.TensorStorageMetadata,
                metadata.TensorProperties,
                metadata.ChunkStorageMetadata,
                metadata.BytesStorageMetadata,
                metadata.StorageMeta,
                metadata._MEM_FORMAT_ENCODING,  # noqa: SLF001 - it stands in every .metadata
                _StorageInfo,
            ),
        ),
        _SIZE,
        Name("collections", "OrderedDict"),
        Name("torch.serialization", "_get_layout"),
    }
)
_DIMENSIONS = 64
"""Maximum dimensions of a torch tensor."""
_SHARD_INSTRUCTIONS = 300
"""Instructions of the pickle for each shard that is to be expected: four times as many as it takes, as the
checkpoint may be of more ranks."""
_ALIKE = 16
"""Maximum number of shards whose names have the same hash."""
_PATHS = frozenset({"PosixPath", "PurePosixPath", "WindowsPath", "PureWindowsPath"})
"""Classes of pathlib, or a module within it: the path of the saved checkpoint, which is ignored."""


class CheckedReader(FileSystemReader):
    """DCP's reader for a checkpoint whose files were verified against its manifest."""

    def __init__(self, folder: Path, files: Collection[str], shards: int = 0) -> None:
        """Read tensors from `folder`.

        Args:
            folder: of the checkpoint.
            files: the names its manifest lists.
            shards: as many as the caller's own ranks would write; some times more are read.
        """
        super().__init__(folder)
        self._most = max(MOST_INSTRUCTIONS, _SHARD_INSTRUCTIONS * shards)
        self._folder = folder
        self._files = frozenset(files)

    def read_metadata(self, *_args: Any, **_kwargs: Any) -> metadata.Metadata:
        """Return DCP's metadata, built by value.

        Raises:
            CheckpointError: it describes other values than tensors, or names a file outside the checkpoint.
        """
        path = self._folder / METADATA_NAME
        try:
            with no_garbage_collections():
                value = read_pickle(read_document(path, "metadata"), _allowed, most=self._most)
                found = _metadata(value, self._files)
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path} is refused: {error}") from error
        found.storage_meta = metadata.StorageMeta(load_id=self.load_id)
        return found

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read the items of `plan` into memory, several files at a time.

        Raises:
            CheckpointError: a file contains something else than its tensors.
            OSError: a file cannot be read.
        """
        places = self.storage_data
        by_file: dict[str, list[ReadItem]] = defaultdict(list)
        for item in plan.items:
            by_file[places[item.storage_index].relative_path].append(item)
        parts = [replace(plan, items=items) for items in by_file.values()]
        sizes = [sum(places[item.storage_index].length for item in part.items) for part in parts]
        read = super().read_data

        def read_file(part: LoadPlan) -> None:
            left = self._read_plain(part.items, planner)
            if left:
                read(replace(part, items=left), planner).wait()

        in_threads(as_here(read_file), parts, sizes)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _read_plain(self, items: Sequence[ReadItem], planner: LoadPlanner) -> list[ReadItem]:
        """Read tensors of one file straight into their memory; return the items that torch has to load."""
        left = []
        with (self._folder / self.storage_data[items[0].storage_index].relative_path).open("rb") as file:
            for item in items:
                place = self.storage_data[item.storage_index]
                plain = self._check(file, place)
                target = planner.resolve_tensor(item).detach()
                if plain is None or not _fits(plain, item, target):
                    left.append(item)
                    continue
                start, size = plain.start, target.nbytes
                if start + size > place.length:
                    raise CheckpointError(
                        f"{file.name} is refused: at byte {place.offset}, a tensor ends outside of it"
                    )
                file.seek(place.offset + start)
                if _read_into(file, target) < size:
                    raise CheckpointError(f"{file.name} ends within a tensor")
                planner.commit_tensor(item, target)
        return left

    def _check(self, file: IO[bytes], place: _StorageInfo) -> PlainTensor | None:
        try:
            return check_archive(Span(file, place.offset, place.length))
        except ValueError as error:
            path = self._folder / place.relative_path
            raise CheckpointError(f"{path} is refused: at byte {place.offset}, {error}") from error

    def _slice_file(self, file: IO[bytes], sinfo: _StorageInfo) -> IO[bytes]:
        self._check(file, sinfo)
        return super()._slice_file(file, sinfo)


def _fits(plain: PlainTensor, item: ReadItem, target: torch.Tensor) -> bool:
    """Return whether the whole tensor goes into memory of the CPU that is laid out alike."""
    whole = not any(item.storage_offsets) and tuple(item.lengths) == tuple(target.shape) == plain.shape
    here = type(target) is torch.Tensor and target.device.type == "cpu" and target.is_contiguous()
    return whole and here and target.dtype == plain.dtype and target.numel() > 0


def _read_into(file: IO[bytes], target: torch.Tensor) -> int:
    """Read a dense tensor's bytes into its memory; return their number, less only at the end of the file."""
    memory = memoryview((ctypes.c_ubyte * target.nbytes).from_address(target.data_ptr()))
    done = 0
    while done < len(memory) and (length := cast("io.BufferedReader", file).readinto(memory[done:])):
        done += length
    return done


def _allowed(name: Name) -> bool:
    path = name.module.partition(".")[0] == "pathlib" and name.name in _PATHS
    return name in _ALLOWED or path or is_dtype(name)


def _metadata(value: Any, files: Collection[str]) -> metadata.Metadata:
    said = _state(value, metadata.Metadata)
    tensors, places = _typed(said.get("state_dict_metadata"), dict), _typed(said.get("storage_data"), dict)
    indices = {key: _index(key) for key in places}
    # dicts compare keys of equal hash one by one, and crafted offsets can have equal hashes
    if indices and max(Counter(map(hash, indices.values())).values()) > _ALIKE:
        raise ValueError("its shards are named so that to find one takes for ever")
    where = {indices[key]: _place(item, files) for key, item in places.items()}
    if len({(place.relative_path, place.offset) for place in where.values()}) != len(places):
        raise ValueError("two shards in it are at the same place")
    return metadata.Metadata(
        {name: _tensor(name, item) for name, item in tensors.items()}, storage_data=where
    )


def _tensor(name: Any, value: Any) -> metadata.TensorStorageMetadata:
    if type(name) is not str or not _is(value, metadata.TensorStorageMetadata):
        raise ValueError(f"{name!r} is not a tensor; only tensors are read from a checkpoint")
    said = _state(value, metadata.TensorStorageMetadata)
    shape = _size(said.get("size"))
    properties = _state(said.get("properties"), metadata.TensorProperties, tuple)
    dtype = properties[0] if properties else None
    if not isinstance(dtype, Name) or not is_dtype(dtype):
        raise ValueError(f"{name!r} has no dtype")
    chunks = [_chunk(name, item, shape) for item in _typed(said.get("chunks"), list)]
    if sum(math.prod(chunk.sizes) for chunk in chunks) != math.prod(shape):
        raise ValueError(f"the shards of {name!r} are not the whole of it")
    return metadata.TensorStorageMetadata(
        metadata.TensorProperties(dtype=vars(torch)[dtype.name]), shape, chunks
    )


def _chunk(name: str, value: Any, shape: torch.Size) -> metadata.ChunkStorageMetadata:
    said = _state(value, metadata.ChunkStorageMetadata)
    offsets, sizes = _size(said.get("offsets")), _size(said.get("sizes"))
    if not len(offsets) == len(sizes) == len(shape) or any(
        offset + size > whole for offset, size, whole in zip(offsets, sizes, shape, strict=True)
    ):
        raise ValueError(f"a shard of {name!r} lies outside of it")
    return metadata.ChunkStorageMetadata(offsets, sizes)


def _index(value: Any) -> metadata.MetadataIndex:
    said = _state(value, metadata.MetadataIndex)
    offset, index = said.get("offset"), said.get("index")
    return metadata.MetadataIndex(
        _typed(said.get("fqn"), str),
        None if offset is None else _size(offset),
        None if index is None else _count(index),
    )


def _place(value: Any, files: Collection[str]) -> _StorageInfo:
    said = _state(value, _StorageInfo)
    path = _typed(said.get("relative_path"), str)
    if path not in files:
        raise ValueError(f"it points to a file that is not the checkpoint's: {path!r}")
    if said.get("transform_descriptors"):
        raise ValueError(f"what it points to in {path} is packed, which no checkpoint of Torchdeck's is")
    return _StorageInfo(path, _count(said.get("offset")), _count(said.get("length")))


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, Record) and value.name == _name(kind)


def _state(value: Any, kind: type, form: type = dict) -> Any:
    """Return the state of an object of `kind`."""
    if not _is(value, kind) or type(value.state) is not form:
        raise ValueError(f"it is not the metadata of a checkpoint: there is no {kind.__name__}")
    return value.state


def _typed(value: Any, kind: type[T]) -> T:
    if type(value) is not kind:
        raise ValueError(f"it is not the metadata of a checkpoint: there is no {kind.__name__}")
    return value


def _size(value: Any) -> torch.Size:
    if not isinstance(value, Record) or value.name != _SIZE or len(value.args) != 1:
        raise ValueError("a shape is missing in it")
    lengths = _typed(value.args[0], tuple)
    if len(lengths) > _DIMENSIONS:
        raise ValueError(f"it has a shape of {len(lengths)} dimensions")
    return torch.Size([_count(length) for length in lengths])


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError("it has a number that is no size")
    return value
