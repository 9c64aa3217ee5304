"""Samples actually used by a rank: one record per step, appended during training, read for an audit.

A file is one line of JSON (`SampleLogHeader`), then records, all little endian:

    head CRC-32 u4 | body CRC-32 u4 | samples u4 | microbatches u4 | step i8 | epoch i8 | tokens f8
    samples of each microbatch, u4 each | sample ids, 2, 4 or 8 bytes each, by the size of the data set

The first CRC is over the rest of the head, the second over the body. A record is one write, so a process that
ends at any time leaves complete records and at most one torn one at the end.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from torchdeck.contract.bounded_file import open_regular
from torchdeck.contract.bounded_json import parse_json
from torchdeck.data.order import Ids

SAMPLE_LOG_VERSION = 1

_FORMAT = "torchdeck samples"
_HEAD = struct.Struct("<IIIIqqd")
_CHECKED_HEAD = struct.Struct("<IIIqqd")
"""The head without its own CRC."""
_HEADER_LIMIT = 4096
_CHUNK = 1 << 20
_RECORD_LIMIT = 256 << 20
"""Maximum bytes of one step's record."""
_WIDTHS = (2, 4, 8)


class SampleLogError(ValueError):
    """A file is not a sample log, is from a newer Torchdeck or damaged; the message gives the file and the
    position.
    """


@dataclass(frozen=True)
class SampleLogHeader:
    """Initial state of a rank."""

    size: int
    """Samples in the data set."""
    rank: int
    world_size: int
    start: Mapping[str, Any]
    """The position before the first record, as JSON."""
    batch_plan: str = ""
    """Fingerprint of the batch plan; empty if the order comes from the seed."""

    @property
    def width(self) -> int:
        """Return the bytes of a sample id."""
        return next(width for width in _WIDTHS if width == 8 or self.size <= 1 << 8 * width)

    def render(self) -> bytes:
        """Return the header line."""
        value = {"format": _FORMAT, "v": SAMPLE_LOG_VERSION, "width": self.width, **asdict(self)}
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


@dataclass(frozen=True)
class SampleRecord:
    """Samples used by one rank in one step."""

    step: int
    """Optimizer steps done, including this one."""
    epoch: int
    """Counted from 0."""
    tokens: float
    """Number of tokens this rank's losses were averaged over; samples if the recipe counts no tokens."""
    counts: npt.NDArray[np.uint32]
    """Samples of each microbatch, shape (microbatches,)."""
    ids: npt.NDArray[np.unsignedinteger[Any]]
    """Samples of all microbatches in order, shape (samples,)."""


class SampleLogWriter:
    """Creates a file and appends records to it.

    Args:
        path: the file; its folder is created. An existing file is replaced: it is from a former start of the
            same attempt, none of whose steps count.
        header: header to write first.

    Raises:
        OSError: it cannot be created.
    """

    def __init__(self, path: Path, header: SampleLogHeader) -> None:
        self._header = header
        self._size = header.size
        self._step: int | None = None
        self._dtype = np.dtype(f"<u{header.width}")
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o600)
        self._append(header.render())

    def write(self, step: int, epoch: int, tokens: float, parts: Sequence[Ids]) -> None:
        """Append the samples used in one step; they are in the kernel's cache when this returns.

        Args:
            step: optimizer steps done, including this one.
            epoch: epoch of the step.
            tokens: this rank's.
            parts: ids of each microbatch, int64.

        Raises:
            ValueError: an id is not in the data set.
            OSError: the disk is full or gone.
        """
        ids = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if len(ids) and ids.view(np.uint64).max() >= self._size:
            raise ValueError(
                f"sample ids from {ids.min()} to {ids.max()} were used, but the data set has {self._size} "
                "samples"
            )
        counts = np.fromiter(map(len, parts), "<u4", len(parts)).tobytes()
        body = counts + ids.astype(self._dtype).tobytes()
        head = _CHECKED_HEAD.pack(zlib.crc32(body), len(ids), len(parts), step, epoch, tokens)
        self._append(zlib.crc32(head).to_bytes(4, "little") + head + body)
        self._step = step

    def goes_on(self, header: SampleLogHeader, step: int) -> bool:
        """Return whether a log with `header` that begins after `step` continues from the newest record, and
        so belongs here.
        """
        same = dataclasses.replace(header, start=self._header.start) == self._header
        return same and step == self._step

    def sync(self) -> None:
        """Sync everything to disk."""
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Close the file; no record may follow."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _append(self, record: bytes) -> None:
        written = os.write(self._descriptor, record)
        if written != len(record):
            raise OSError(errno.ENOSPC, f"only {written} of {len(record)} bytes of a record could be written")


class SampleLog:
    """Reader of a sample log.

    Args:
        path: the file.

    Attributes:
        header: its header.
        end: offset after the last complete record that was read, in bytes; what follows is torn, or not read
            yet.

    Raises:
        SampleLogError: it is not a sample log, or from a newer Torchdeck.
        OSError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with open_regular(path) as file:
            line = file.readline(_HEADER_LIMIT)
        self.header = _header(path, line)
        self._dtype = np.dtype(f"<u{self.header.width}")
        self.end = len(line)

    def records(self, offset: int | None = None) -> Iterator[SampleRecord]:
        """Yield complete records from `offset` (a former `end`; default: the first) on.

        A truncated record at the end of the file is skipped: the process ended while writing it.

        Raises:
            SampleLogError: a record is damaged; those before it were yielded.
            OSError: the file cannot be read.
        """
        if offset is not None:
            self.end = offset
        with self._path.open("rb", buffering=_CHUNK) as file:
            file.seek(self.end)
            while True:
                head = file.read(_HEAD.size)
                if len(head) < _HEAD.size:
                    return
                left = os.fstat(file.fileno()).st_size - self.end - len(head)
                record = self._record(head, file.read, left)
                if record is None:
                    return
                yield record

    def _record(self, head: bytes, read: Any, left: int) -> SampleRecord | None:
        """Return the record that begins with `head`, `left` bytes before the file's end; None if it is
        torn.
        """
        crc, body_crc, samples, microbatches, step, epoch, tokens = _HEAD.unpack(head)
        if zlib.crc32(head[4:]) != crc:
            if not any(head) and not any(iter(lambda: read(_CHUNK).strip(b"\0"), b"")):
                return None  # a power cut may leave zeros in unwritten parts
            raise self._damaged()
        size = 4 * microbatches + self._dtype.itemsize * samples
        if size > _RECORD_LIMIT:
            raise self._damaged()
        body = read(size) if size <= left else b""
        if len(body) < size:
            return None
        counts = np.frombuffer(body, "<u4", microbatches)
        ids = np.frombuffer(body, self._dtype, samples, 4 * microbatches)
        if zlib.crc32(body) != body_crc or int(counts.sum()) != samples:
            raise self._damaged()
        if samples and int(ids.max()) >= self.header.size:
            raise self._damaged()
        self.end += len(head) + len(body)
        return SampleRecord(step, epoch, tokens, counts, ids)

    def _damaged(self) -> SampleLogError:
        return SampleLogError(f"{self._path} is damaged at byte {self.end}: a record does not fit its hash")


def _header(path: Path, line: bytes) -> SampleLogHeader:
    none = SampleLogError(f"{path} is not a sample log: its first line is none of one")
    try:
        value = parse_json(line, limit=_HEADER_LIMIT)
        version = _whole(value["v"], 1) if value["format"] == _FORMAT else 0
    except (ValueError, TypeError, KeyError):
        raise none from None
    if version > SAMPLE_LOG_VERSION:
        raise SampleLogError(
            f"{path} was written by a newer Torchdeck (format {version}, this one reads up to "
            f"{SAMPLE_LOG_VERSION}): update Torchdeck to read it"
        )
    try:
        header = SampleLogHeader(
            size=_whole(value["size"], 1),
            rank=_whole(value["rank"], 0),
            world_size=_whole(value["world_size"], 1),
            start=dict(value["start"]),
            batch_plan=str(value["batch_plan"]),
        )
        width = value["width"]
    except (ValueError, TypeError, KeyError):
        raise none from None
    if version < 1 or width != header.width or header.rank >= header.world_size:
        raise none
    return header


def _whole(value: Any, least: int) -> int:
    if type(value) is not int or not least <= value < 2**62:
        raise ValueError(value)
    return value
