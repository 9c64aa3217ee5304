"""safetensors files, written and read tensor by tensor.

The format (https://github.com/huggingface/safetensors#format): 8 bytes, the header's length N as an unsigned
little-endian integer; N bytes of JSON, {name: {"dtype", "shape", "data_offsets": [begin, end]}} with an
optional `__metadata__` of strings; then the tensors' bytes, row-major, without holes. The package of that
name writes only from memory, all at once, which is impossible for a checkpoint of hundreds of gigabytes.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from torchdeck.contract.bounded_file import open_regular
from torchdeck.contract.checkpoints.manifest import CheckpointError, FileEntry
from torchdeck.distributed.exchange.source_checkpoint import TensorSpec

_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.complex64: "C64",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_LARGEST_HEADER = 100_000_000
"""Bytes; the reference implementation rejects more."""
_MOST_VALUES = 4_000_000
"""Maximum commas and brackets of a header: seven for each tensor."""
_PIECE = 1 << 24


def write(
    path: Path,
    specs: Mapping[str, TensorSpec],
    read: Callable[[str], torch.Tensor],
    metadata: Mapping[str, str],
    advance: Callable[[int], None],
) -> FileEntry:
    """Write a file that is on disk when this returns; one tensor is in memory at a time.

    Args:
        path: a new file.
        specs: its tensors, in order.
        read: returns a tensor for its spec.
        metadata: strings for the header.
        advance: called with each number of tensor bytes written.

    Raises:
        CheckpointError: the format has no name for a tensor's dtype.
        OSError: the disk is full or gone.
    """
    digest, size = hashlib.sha256(), 0
    with path.open("xb") as file:

        def put(piece: bytes | memoryview) -> None:
            nonlocal size
            file.write(piece)
            digest.update(piece)
            size += len(piece)

        put(_header(specs, metadata))
        for name in specs:
            content = _bytes_of(name, read(name), specs[name])
            for start in range(0, len(content), _PIECE):
                piece = content[start : start + _PIECE]
                put(piece)
                advance(len(piece))
        file.flush()
        os.fsync(file.fileno())
    return FileEntry(size, digest.hexdigest())


class SafetensorsFile:
    """A file whose header was checked; tensors are read on demand.

    Raises:
        CheckpointError: it is not a safetensors file; no memory was allocated from its claims.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with open_regular(path) as file:
                size = os.fstat(file.fileno()).st_size
                header, start = _read_header(file.read, size)
            self._offsets, self.specs = _checked(header, size - start)
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise CheckpointError(f"{path} is not a safetensors file: {error}") from None
        self._start = start

    def read(self, name: str) -> torch.Tensor:
        spec = self.specs[name]
        tensor = torch.empty(spec.shape, dtype=spec.dtype)
        content = _bytes_of(name, tensor, spec)
        try:
            with open_regular(self._path) as file:
                file.seek(self._start + self._offsets[name])
                done = 0
                while done < len(content):
                    count = file.readinto(content[done : done + _PIECE])
                    if not count:
                        raise CheckpointError(f"{self._path} ended while {name} was read")
                    done += count
        except OSError as error:
            raise CheckpointError(f"{self._path} cannot be read: {error.strerror}") from error
        return tensor


def _header(specs: Mapping[str, TensorSpec], metadata: Mapping[str, str]) -> bytes:
    value: dict[str, Any] = {"__metadata__": dict(metadata)}
    begin = 0
    for name, spec in specs.items():
        if spec.dtype not in _NAMES:
            raise CheckpointError(f"{name} is {spec.dtype}, which safetensors files cannot hold")
        end = begin + spec.size
        value[name] = {
            "dtype": _NAMES[spec.dtype],
            "shape": list(spec.shape),
            "data_offsets": [begin, end],
        }
        begin = end
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    text += b" " * (-len(text) % 8)  # tensors begin at a multiple of 8
    return len(text).to_bytes(8, "little") + text


def _bytes_of(name: str, tensor: torch.Tensor, spec: TensorSpec) -> memoryview:
    """Return the memory of `tensor`, or of a contiguous copy."""
    if tuple(tensor.shape) != spec.shape or tensor.dtype != spec.dtype:
        raise CheckpointError(f"{name} is {tuple(tensor.shape)} of {tensor.dtype}, not what was announced")
    tensor = tensor.detach().contiguous()
    buffer = (ctypes.c_char * spec.size).from_address(tensor.data_ptr() if spec.size else 0)
    # the memory belongs to the tensor, which lives as long as its bytes are used
    buffer.owner = tensor  # type: ignore[attr-defined]
    return memoryview(buffer).cast("B")


def _read_header(read: Callable[[int], bytes], size: int) -> tuple[dict[str, Any], int]:
    length = int.from_bytes(read(8), "little")
    if size < 8 or length > min(size - 8, _LARGEST_HEADER):
        raise ValueError(f"its header cannot have {length} bytes")
    content = read(length)
    if sum(map(content.count, (b",", b"[", b"{"))) > _MOST_VALUES:  # each takes a hundred bytes of memory
        raise ValueError(f"its header has more than {_MOST_VALUES} values")
    header = json.loads(content.decode("utf-8"), object_pairs_hook=_without_doubles)
    if not isinstance(header, dict):
        raise TypeError("its header is not an object")
    return header, 8 + length


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("it has a name twice")
    return value


def _checked(header: Mapping[str, Any], size: int) -> tuple[dict[str, int], dict[str, TensorSpec]]:
    """Return the offsets and specs of the tensors; together they fill the data exactly."""
    specs, spans = {}, []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        shape, (begin, end) = entry["shape"], entry["data_offsets"]
        if len(shape) > 64 or any(type(item) is not int or item < 0 for item in (*shape, begin, end)):
            raise ValueError(f"{name} has no sensible shape or place")
        specs[name] = TensorSpec(tuple(shape), _DTYPES[entry["dtype"]])
        if math.prod(shape) * specs[name].dtype.itemsize != end - begin:
            raise ValueError(f"{name} of shape {shape} does not fit its {end - begin} bytes")
        spans.append((begin, end, name))
    reached = 0
    for begin, end, name in sorted(spans):
        if begin != reached:
            raise ValueError(f"{name} begins at {begin}, not at {reached}")
        reached = end
    if reached != size:
        raise ValueError(f"its tensors have {reached} bytes and it has {size}")
    return {name: begin for begin, _, name in spans}, specs
