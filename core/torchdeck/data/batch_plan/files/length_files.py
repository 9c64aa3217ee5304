"""Lengths from a file: `.npy`, `.jsonl` with "length", or text with a whole number per line."""

from __future__ import annotations

import os
import tokenize
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from torchdeck.contract.bounded_file import open_regular, why_unreadable
from torchdeck.data.batch_plan.columns import BatchPlanError, Column, Ints
from torchdeck.data.batch_plan.lengths import as_lengths
from torchdeck.data.batch_plan.meta import parsed_json

Progress = Callable[[str, int, int], None]
"""Called with the activity, the amount done, and the total."""
NPY_FAULTS = (
    *(ValueError, EOFError, SyntaxError, TypeError, OverflowError, MemoryError, RecursionError),
    tokenize.TokenError,
)
"""Exceptions that numpy raises for a damaged `.npy`, whose header is a Python literal."""
_MOST_DIGITS = 18
_LINES = 1 << 16
"""Lines between two progress reports."""


def read_lengths(path: str | os.PathLike[str], *, progress: Progress | None = None) -> Column:
    """Return the tokens of each sample, shape (n,).

    Args:
        path: ends with .npy (one list of whole numbers), .jsonl (objects with "length"), or is text.
        progress: called periodically with the bytes read.

    Raises:
        BatchPlanError: the file has other content; for lines, with their number.
        OSError: it cannot be read.
    """
    file = Path(path)
    if file.suffix == ".npy":
        return read_npy(file)
    parse = _json_length if file.suffix == ".jsonl" else _plain_length
    return parsed_lines(file, parse, progress)


def read_npy(path: Path) -> Column:
    """Return the list of whole numbers in a `.npy` file, memory-mapped; same errors as `read_lengths`."""
    why = why_unreadable(path)
    if why:
        raise BatchPlanError(f"{path} {why}")
    try:
        return as_lengths(np.load(path, mmap_mode="r", allow_pickle=False))
    except NPY_FAULTS as error:
        raise BatchPlanError(f"{path} holds no lengths: {error}") from error


def parsed_lines(path: Path, parse: Callable[[bytes], int], progress: Progress | None) -> Ints:
    """Return the results of `parse` for each line, shape (n,); blank lines at the end are not samples.

    Raises:
        BatchPlanError: there is no line, or `parse` raised a ValueError, which is reported with file and
            line.
    """
    lengths = np.fromiter(_parsed(path, parse, progress), dtype=np.int64)
    if len(lengths) == 0:
        raise BatchPlanError(f"{path} is empty: a batch plan needs at least one sample")
    return lengths


def json_object(line: bytes) -> Mapping[str, Any]:
    """Return the object in `line`; raises ValueError if there is none."""
    value = parsed_json(line)
    if not isinstance(value, Mapping):
        raise BatchPlanError(f"it must be an object, not {type(value).__name__}")
    return value


def json_length(value: Mapping[str, Any]) -> int:
    """Return its "length"; raises ValueError if that is not a whole number."""
    length = value.get("length")
    if type(length) is not int or abs(length) >= 10**_MOST_DIGITS:
        raise BatchPlanError(f'"length" must be a whole number, not {length!r}')
    return length


def _json_length(line: bytes) -> int:
    return json_length(json_object(line))


def _plain_length(line: bytes) -> int:
    text = line.strip()
    if not text.removeprefix(b"-").isdigit() or len(text) > _MOST_DIGITS:
        raise BatchPlanError(f"it must be a whole number, not {text[:40].decode('utf-8', 'replace')!r}")
    return int(text)


def _parsed(path: Path, parse: Callable[[bytes], int], progress: Progress | None) -> Iterator[int]:
    done, size, blank = 0, path.stat().st_size, 0
    with open_regular(path) as file:
        for number, line in enumerate(file, start=1):
            done += len(line)
            if progress is not None and number % _LINES == 0:
                progress("bytes read", done, size)
            if not line.strip():
                blank = blank or number
                continue
            if blank:
                raise BatchPlanError(f"{path}, line {blank} is blank: each line must be a sample")
            try:
                length = parse(line)
            except ValueError as error:
                raise BatchPlanError(f"{path}, line {number}: {error}") from error
            yield length
