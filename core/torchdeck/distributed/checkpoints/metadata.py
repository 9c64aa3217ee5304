"""Reading torch.distributed.checkpoint's files without trusting them.

`.metadata` is a pickle, and a pickle is a program.
Only the plain data classes that DCP writes there are allowed, every tensor file it points to must be one of
the checkpoint's own, and objects pickled among the tensors are refused. Tensors themselves are read by DCP
with `weights_only=True`.
"""

from __future__ import annotations

import collections
import io
import pathlib
import pickle
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint import metadata
from torch.distributed.checkpoint.filesystem import FileSystemReader, _StorageInfo

from torchdeck.distributed.checkpoints.manifest import CheckpointError

METADATA_NAME = ".metadata"

_CLASSES = {
    (item.__module__, item.__qualname__): item
    for item in (
        metadata.Metadata,
        metadata.MetadataIndex,
        metadata.TensorStorageMetadata,
        metadata.TensorProperties,
        metadata.ChunkStorageMetadata,
        metadata.StorageMeta,
        metadata._MEM_FORMAT_ENCODING,  # noqa: SLF001 - it stands in every .metadata
        _StorageInfo,
        torch.Size,
        collections.OrderedDict,
    )
}


class CheckedReader(FileSystemReader):
    """DCP's reader for a checkpoint whose files were verified against its manifest."""

    def __init__(self, folder: Path, files: Collection[str]) -> None:
        """Read tensors from `folder`; `files` are the names its manifest lists."""
        super().__init__(folder)
        self._folder = folder
        self._files = frozenset(files)

    def read_metadata(self, *_args: Any, **_kwargs: Any) -> metadata.Metadata:
        """DCP's metadata, through the allow-list.

        Raises:
            CheckpointError: it names anything else, or a file outside the checkpoint.
        """
        path = self._folder / METADATA_NAME
        try:
            value = _AllowListUnpickler(path).load()
        except CheckpointError:
            raise
        except Exception as error:
            raise CheckpointError(f"{path} cannot be read: {type(error).__name__}: {error}") from error
        if not isinstance(value, metadata.Metadata) or not isinstance(value.storage_data, dict):
            raise CheckpointError(f"{path} is not the metadata of a checkpoint")
        self._check(path, value)
        value.storage_meta = metadata.StorageMeta(load_id=self.load_id)
        return value

    def _check(self, path: Path, value: metadata.Metadata) -> None:
        for name, entry in value.state_dict_metadata.items():
            if not isinstance(entry, metadata.TensorStorageMetadata):
                raise CheckpointError(
                    f"{path}: {name} is not a tensor; only tensors are read from a checkpoint"
                )
        for entry in value.storage_data.values():
            if not isinstance(entry, _StorageInfo) or entry.relative_path not in self._files:
                raise CheckpointError(f"{path} points to a file that is not the checkpoint's: {entry!r}")


class _AllowListUnpickler(pickle.Unpickler):
    def __init__(self, path: Path) -> None:
        super().__init__(io.BytesIO(path.read_bytes()))
        self._path = path

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _CLASSES:
            return _CLASSES[module, name]
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        if (module, name) == ("torch.serialization", "_get_layout"):
            return _layout
        if module.startswith("pathlib") and name in (
            "PosixPath",
            "PurePosixPath",
            "WindowsPath",
            "PureWindowsPath",
        ):
            return pathlib.PurePath  # where it was saved: never opened
        raise CheckpointError(
            f"{self._path} is refused: it asks for {module}.{name}, which a checkpoint never holds"
        )

    def persistent_load(self, pid: Any) -> Any:
        raise CheckpointError(f"{self._path} is refused: it refers to an object outside itself ({pid!r})")


def _layout(name: str) -> torch.layout:
    layout = getattr(torch, name.removeprefix("torch."), None)
    if not isinstance(layout, torch.layout):
        raise CheckpointError(f"{name!r} is not a tensor layout")
    return layout
