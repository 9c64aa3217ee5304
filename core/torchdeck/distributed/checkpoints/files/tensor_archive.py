"""Checks files written by `torch.save` before torch reads them.

`torch.load(weights_only=True)` executes nothing, but it allocates whatever a file requests: a `bytearray` of
any length, entries compressed a thousandfold, a tensor of 10¹⁵ elements that all share one location. A file
written by torch is a zip archive of uncompressed entries
(https://pytorch.org/docs/stable/notes/serialization.html): one pickle, and a storage for each of its tensors.
"""

from __future__ import annotations

import errno
import io
import math
import os
import sys
import zipfile
from collections.abc import Mapping
from typing import IO, Any, NamedTuple, cast

import torch

from torchdeck.distributed.checkpoints.files.inert_pickle import Name, Record, parts_of, read_pickle

_PICKLE = "/data.pkl"
_LARGEST_PICKLE = 32 << 20
"""Bytes; it has 120 for each tensor."""
_MOST_INSTRUCTIONS = 4_000_000
"""Maximum instructions of a pickle, which torch reads again; it has 35 for each tensor."""
_DIMENSIONS = 64
"""Maximum dimensions of a torch tensor."""
_REBUILT = frozenset({Name("torch._utils", "_rebuild_tensor_v2"), Name("torch._utils", "_rebuild_tensor_v3")})
_PLAIN = frozenset(
    {
        Name("torch._utils", "_rebuild_parameter"),
        Name("torch.storage", "UntypedStorage"),
        Name("torch", "Size"),
        Name("torch", "device"),
        Name("collections", "OrderedDict"),
    }
)


class PlainTensor(NamedTuple):
    """A tensor whose values are in a file as they are in memory."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    """Byte of the file at which they begin."""


_DTYPES = {
    "FloatStorage": torch.float32,
    "BFloat16Storage": torch.bfloat16,
    "HalfStorage": torch.float16,
    "DoubleStorage": torch.float64,
}
"""Of the tensors that are most of a checkpoint."""
_PLAIN_ARGUMENTS = 6
"""A seventh says that it is negated or conjugated when it is read."""
_LOCAL_HEADER = 30
"""Bytes before an entry's name, as the zip format has it; the lengths of name and extra field end it."""


def check_archive(file: IO[bytes] | Span) -> PlainTensor | None:
    """Raise unless `file` contains tensors and plain values, all of which fit into its bytes.

    Args:
        file: a seekable file; it is read from its beginning, and rewound.

    Returns:
        Where its tensor is, if that is all of it, and of a usual kind.

    Raises:
        ValueError: the fault, as part of a sentence.
        OSError: it cannot be read.
    """
    size = file.seek(0, os.SEEK_END)
    try:
        with zipfile.ZipFile(cast("IO[bytes]", file)) as archive:
            entries = _entries(archive, size)
            pickles = [name for name in entries if name.endswith(_PICKLE)]
            if len(pickles) != 1 or entries[pickles[0]] > _LARGEST_PICKLE:
                raise ValueError("it is not a file that torch.save wrote")
            content = archive.read(pickles[0])
            prefix = pickles[0].removesuffix(_PICKLE)
            value = read_pickle(content, _allowed, most=_MOST_INSTRUCTIONS)
            _check_tensors(value, entries, f"{prefix}/data/")
            found = _plain_tensor(value, archive, prefix, file)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise ValueError("it is damaged, or not a file that torch.save (since torch 1.6) wrote") from error
    file.seek(0)
    return found


def _plain_tensor(
    value: Any, archive: zipfile.ZipFile, prefix: str, file: IO[bytes] | Span
) -> PlainTensor | None:
    """Return where the only tensor of a checked archive is; None if torch has to rebuild it."""
    if not isinstance(value, Record) or value.name != Name("torch._utils", "_rebuild_tensor_v2"):
        return None
    if len(value.args) != _PLAIN_ARGUMENTS:
        return None
    storage, offset, shape, strides = value.args[:4]
    dtype = _DTYPES.get(storage.args[1].name) if isinstance(storage.args[1], Name) else None
    name, order = f"{prefix}/data/{storage.args[2]}", f"{prefix}/byteorder"
    if dtype is None or order not in archive.namelist() or archive.read(order) != sys.byteorder.encode():
        return None  # torch converts it
    info = archive.getinfo(name)
    dense = tuple(math.prod(shape[at + 1 :]) for at in range(len(shape)))
    if offset or strides != dense or info.file_size != math.prod(shape) * dtype.itemsize:
        return None
    file.seek(info.header_offset)
    header = file.read(_LOCAL_HEADER) or b""
    lengths = [int.from_bytes(header[at : at + 2], "little") for at in (26, 28)]
    return PlainTensor(dtype, shape, info.header_offset + _LOCAL_HEADER + sum(lengths))


class Span(io.RawIOBase):
    """`length` bytes of `file` from `offset` on, as a separate file.

    Raises:
        ValueError: the file ends before.
    """

    def __init__(self, file: IO[bytes], offset: int, length: int) -> None:
        super().__init__()
        size = file.seek(0, os.SEEK_END)
        if offset + length > size:
            raise ValueError(f"it would end at {offset + length}, and the file has {size} bytes")
        self._file, self._offset, self._length, self._at = file, offset, length, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._length}[whence]
        if start + offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._at = start + offset
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        self._file.seek(self._offset + self._at)
        content = self._file.read(max(0, min(len(buffer), self._length - self._at)))
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)


def is_dtype(name: Name) -> bool:
    """Return whether it names one of torch's dtypes; nothing is imported for this."""
    return name.module == "torch" and isinstance(vars(torch).get(name.name), torch.dtype)


def _entries(archive: zipfile.ZipFile, size: int) -> dict[str, int]:
    entries = {info.filename: info.file_size for info in archive.infolist()}
    # torch finds entries case-insensitively, so it could read another entry than the one checked here
    if len({name.casefold() for name in entries}) != len(entries):
        raise ValueError("it has entries whose names are equal but for case, which torch.save never writes")
    if any(info.orig_filename != info.filename for info in archive.infolist()):
        raise ValueError("it has an entry whose name is cut short, which torch.save never writes")
    stored = all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist())
    if archive.comment or not stored or len(entries) != len(archive.infolist()):
        raise ValueError("it is packed otherwise than torch.save packs files")
    if sum(entries.values()) > size:
        raise ValueError(f"its parts claim {sum(entries.values())} bytes, and it has {size}")
    return entries


def _allowed(name: Name) -> bool:
    storage = name.module == "torch" and name.name.endswith("Storage")
    return name in _REBUILT or name in _PLAIN or storage or is_dtype(name)


def _check_tensors(value: Any, entries: Mapping[str, int], storages: str) -> None:
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, Record) and item.name is None:
            _elements(item, entries, storages)
        if isinstance(item, Record) and item.name in _REBUILT:
            _check_tensor(item.args, entries, storages)
        left += parts_of(item)


def _check_tensor(args: tuple[Any, ...], entries: Mapping[str, int], storages: str) -> None:
    if len(args) < 4 or not isinstance(args[0], Record):
        raise ValueError("a tensor in it is not described")
    storage, offset, shape, strides = args[:4]
    if type(shape) is not tuple or type(strides) is not tuple or len(shape) != len(strides):
        raise ValueError("a tensor in it is not described")
    numbers = (offset, *shape, *strides)
    if len(shape) > _DIMENSIONS or any(type(each) is not int or not 0 <= each < 1 << 63 for each in numbers):
        raise ValueError("a tensor in it has no sensible shape")
    if math.prod(shape) > _elements(storage, entries, storages):
        raise ValueError(f"a tensor in it has {math.prod(shape)} elements, and fewer are stored")


def _elements(storage: Record, entries: Mapping[str, int], storages: str) -> int:
    """Return the number of elements in a storage: as declared, but no more than its entry has bytes."""
    said = storage.args
    if storage.name is not None or type(said) is not tuple or len(said) != 5 or said[0] != "storage":
        raise ValueError("it refers to an object outside itself")
    key, count = said[2], said[4]
    if type(key) is not str or type(count) is not int or not 0 <= count <= entries.get(storages + key, -1):
        raise ValueError("a tensor in it has no storage of its size")
    return count
