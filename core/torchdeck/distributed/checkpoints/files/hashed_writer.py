"""Writes DCP's files of tensors, each hashed while it is written, and synced."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, cast

import torch
from torch.distributed.checkpoint.filesystem import FileSystemWriter, _StorageInfo
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItem
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from torchdeck.contract.checkpoints.manifest import FileEntry
from torchdeck.contract.checkpoints.threads import MOST_THREADS, in_threads
from torchdeck.distributed.checkpoints.files.device_threads import as_here
from torchdeck.distributed.checkpoints.shares import deal

_SMALLEST_FILE = 16 << 20
"""Bytes of tensors from which another file pays off, as a file is written and hashed by one thread."""


class HashedFile:
    """A new file on disk, written from its beginning to its end, and hashed on the way."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._size = 0

    def write(self, content: Any) -> int:
        """Append `content`, an object with bytes."""
        self._digest.update(content)
        length = self._file.write(content)
        self._size += length
        return length

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        self._file.flush()

    @property
    def entry(self) -> FileEntry:
        """Return size and hash of what was written."""
        return FileEntry(self._size, self._digest.hexdigest())

    def sync(self) -> FileEntry:
        """Return `entry` once the file is on disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self.entry


def write_hashed(path: Path, content: bytes) -> FileEntry:
    """Write `content` to a new file; it is on disk when this returns. Raises OSError."""
    with path.open("wb") as opened:
        file = HashedFile(opened)
        file.write(content)
        return file.sync()


class HashedWriter(FileSystemWriter):
    """DCP's writer, but for the files of tensors: a rank's tensors are in several files, one for each thread.

    Attributes:
        written: the files of tensors that this rank has written, by name. All are on disk.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, sync_files=False)
        self.written: dict[str, FileEntry] = {}
        self._folder = folder

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write the items of `plan`; all files are on disk when this returns.

        Raises:
            OSError: a file could not be written.
        """
        sizes = [_bytes(item) for item in plan.items]
        files = _dealt(sizes, min(MOST_THREADS, sum(sizes) // _SMALLEST_FILE))
        names = [f"{plan.storage_data.prefix}{number}.distcp" for number in range(len(files))]

        def write(number: int) -> list[WriteResult]:
            return self._write(names[number], [plan.items[at] for at in files[number]], planner)

        loads = [sum(sizes[at] for at in file) for file in files]
        results = in_threads(as_here(write), range(len(files)), loads)
        done: Future[list[WriteResult]] = Future()
        done.set_result([result for part in results for result in part])
        return done

    def _write(self, name: str, items: Sequence[WriteItem], planner: SavePlanner) -> list[WriteResult]:
        results = []
        with (self._folder / name).open("wb") as opened:
            file = HashedFile(opened)
            for item in items:
                start = file.tell()
                torch.save(_whole(planner.resolve_data(item)), cast("IO[bytes]", file))
                length = file.tell() - start
                results.append(WriteResult(item.index, length, _StorageInfo(name, start, length)))
            self.written[name] = file.sync()
        return results


def _whole(data: Any) -> torch.Tensor:
    """Return the tensor in memory of the CPU that has nothing else in it: torch.save writes all of it."""
    tensor: torch.Tensor = data.detach().cpu()
    return tensor if tensor.untyped_storage().size() == tensor.nbytes else tensor.clone()


def _dealt(sizes: Sequence[int], files: int) -> list[list[int]]:
    """Return the numbers of the items in each of at least one file; in a file, their order is kept."""
    dealt = deal({str(number): size for number, size in enumerate(sizes)}, max(1, files))
    return [
        [number for number in range(len(sizes)) if dealt[str(number)] == file]
        for file in range(max(1, files))
    ]


def _bytes(item: WriteItem) -> int:
    data = item.tensor_data
    if data is None:
        raise ValueError(f"{item.index.fqn} is not a tensor")
    return math.prod(data.chunk.sizes) * data.properties.dtype.itemsize
