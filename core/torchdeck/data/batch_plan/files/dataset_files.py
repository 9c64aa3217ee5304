"""Data set on disk: lengths of its samples, and a fingerprint over its content."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from torchdeck.contract.bounded_file import open_regular
from torchdeck.data.batch_plan.columns import BatchPlanError, Column, Ints
from torchdeck.data.batch_plan.files.length_files import (
    Progress,
    json_length,
    json_object,
    parsed_lines,
    read_npy,
)

_CHUNK = 1 << 22
"""Bytes read at a time."""
_KEYS = ("length", "input_ids", "tokens", "text", "response")
"""Keys that may hold the length of a sample in a `.jsonl`; the first one in the first line counts for all."""
_NEWLINE = 10


@dataclass(frozen=True, eq=False)
class MeasuredDataset:
    """Measurements of a data set that a batch plan needs.

    Attributes:
        lengths: of each sample, shape (n,).
        unit: of the lengths: "bytes" or "tokens".
        fingerprint: SHA-256 in hexadecimal over the content.
    """

    lengths: Column
    unit: str
    fingerprint: str


def measure_dataset(path: str | os.PathLike[str], *, progress: Progress | None = None) -> MeasuredDataset:
    """Return the samples of the data set `path`.

    Args:
        path: a text file (a line is a sample, its bytes without the newline count), a folder of text files
            (each is a sample, by relative path; hidden ones are left out), `.jsonl` (each line an object with
            "length", "input_ids", "tokens", "text", or "prompt" and "response"), or `.npy` (lengths).
        progress: called periodically with bytes read.

    Raises:
        BatchPlanError: it is none of these; for lines, with their number.
        OSError: it cannot be read.
    """
    place = Path(path)
    if place.is_dir():
        return _folder(place, progress)
    if place.suffix == ".npy":
        return MeasuredDataset(read_npy(place), "tokens", content_fingerprint(place))
    if place.suffix == ".jsonl":
        reader = _JsonLines()
        lengths = parsed_lines(place, reader.length, progress)
        return MeasuredDataset(lengths, reader.unit, content_fingerprint(place))
    return _text(place, progress)


def content_fingerprint(path: str | os.PathLike[str], *, progress: Progress | None = None) -> str:
    """Return the SHA-256 in hexadecimal over a file, or over the names, sizes and hashes of the files in a
    folder.

    Args:
        path: the file or folder.
        progress: called periodically with bytes or files read.

    Raises:
        BatchPlanError: the folder has no files, or entries that are not files.
        OSError: it cannot be read.
    """
    place = Path(path)
    return _folder(place, progress).fingerprint if place.is_dir() else _hashed(place, progress)[0]


def _text(path: Path, progress: Progress | None) -> MeasuredDataset:
    digest = hashlib.sha256()
    done, size = 0, path.stat().st_size
    ends: list[Ints] = []
    last = _NEWLINE
    with open_regular(path) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            ends.append(np.flatnonzero(np.frombuffer(chunk, dtype=np.uint8) == _NEWLINE) + done)
            done, last = done + len(chunk), chunk[-1]
            if progress is not None:
                progress("bytes read", done, size)
    if not done:
        raise BatchPlanError(f"{path} is empty: a batch plan needs at least one sample")
    if last != _NEWLINE:
        ends.append(np.array([done], dtype=np.int64))
    bounds = np.concatenate([np.array([-1], dtype=np.int64), *ends])
    lengths = bounds[1:] - bounds[:-1] - 1
    return MeasuredDataset(lengths, "bytes", digest.hexdigest())


def _folder(folder: Path, progress: Progress | None) -> MeasuredDataset:
    files = sorted(files_in(folder), key=os.fsencode)
    if not files:
        raise BatchPlanError(f"{folder} has no files: a batch plan needs at least one sample")
    digest = hashlib.sha256()
    lengths = np.zeros(len(files), dtype=np.int64)
    for number, name in enumerate(files):

        def reading(_what: str, _done: int, _size: int, number: int = number) -> None:
            if progress is not None:
                progress("files read", number, len(files))

        hashed, lengths[number] = _hashed(folder / name, reading)
        digest.update(b"%d %s %s\n" % (lengths[number], hashed.encode("ascii"), os.fsencode(name)))
        if progress is not None:
            progress("files read", number + 1, len(files))
    return MeasuredDataset(lengths, "bytes", digest.hexdigest())


def files_in(folder: Path) -> Iterator[str]:
    """Yield the paths of the files in `folder`, relative to it, except hidden ones.

    Raises:
        BatchPlanError: an entry in it is not a file.
    """
    for parent, inner, names in os.walk(folder):
        inner[:] = [name for name in inner if not name.startswith(".")]
        for name in names:
            if name.startswith("."):
                continue
            place = Path(parent) / name
            if not place.is_file():
                # reading from a pipe would block for ever
                raise BatchPlanError(f"{place} is no file: a folder of samples must have files alone")
            yield place.relative_to(folder).as_posix()


def _hashed(path: Path, progress: Progress | None = None) -> tuple[str, int]:
    """Return SHA-256 and size of a file."""
    digest, size, whole = hashlib.sha256(), 0, path.stat().st_size
    with open_regular(path) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            if progress is not None:
                progress("bytes read", size, whole)
    return digest.hexdigest(), size


class _JsonLines:
    """Lengths of samples that are JSON objects."""

    def __init__(self) -> None:
        self._key: str | None = None

    @property
    def unit(self) -> str:
        return "bytes" if self._key in ("text", "response") else "tokens"

    def length(self, line: bytes) -> int:
        """Return the length of the sample in `line`; raise ValueError if it is none."""
        value = json_object(line)
        if self._key is None:
            self._key = next((key for key in _KEYS if key in value), None)
        if self._key is None or self._key not in value:
            wanted = f'"{self._key}", as the first line has' if self._key else " or ".join(map(repr, _KEYS))
            raise BatchPlanError(f"a sample must have {wanted}; this has {', '.join(value) or 'nothing'}")
        if self._key == "response":
            return _counted(value, "prompt") + _counted(value, "response")
        return json_length(value) if self._key == "length" else _counted(value, self._key)


def _counted(value: Mapping[str, Any], key: str) -> int:
    found = value.get(key)
    is_text = key in ("text", "prompt", "response")
    if not isinstance(found, str if is_text else list):
        wanted = "a text" if is_text else "a list of numbers"
        raise BatchPlanError(f'"{key}" must be {wanted}, not {type(found).__name__}')
    # JSON may hold half a surrogate pair, which valid UTF-8 cannot
    return len(found.encode("utf-8", "surrogatepass")) if isinstance(found, str) else len(found)
