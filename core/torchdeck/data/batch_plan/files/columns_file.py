"""Batch plan on disk: `plan.json`, which describes it, and `columns.bin`, which is memory-mapped.

`columns.bin` holds little-endian integers, each array at a multiple of 64 bytes; `plan.json` lists them
with type, length and SHA-256, and the plan's fingerprint is over all of `plan.json`.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from torchdeck.contract.atomic import sync_folder
from torchdeck.contract.bounded_file import open_regular, read_bounded
from torchdeck.data.batch_plan.columns import BatchPlanError, EpochColumns
from torchdeck.data.batch_plan.meta import (
    NAMES,
    TYPES,
    PlanMeta,
    canonical_json,
    describe,
    parsed_json,
    plan_fingerprint,
)
from torchdeck.data.batch_plan.plan import BatchPlan

FORMAT = "torchdeck-batch-plan"
VERSION = 1
PLAN_FILE = "plan.json"
COLUMNS_FILE = "columns.bin"
_ALIGNED = 64


def write_columns(plan: BatchPlan, folder: Path, *, durable: bool) -> None:
    """Write `plan` into the empty folder `folder`; `durable` syncs it."""
    columns = []
    with (folder / COLUMNS_FILE).open("wb") as file:
        for name, array in plan.arrays():
            file.write(b"\0" * (-file.tell() % _ALIGNED))
            columns.append(describe(name, array))
            file.write(array.data)
        sync_file(file, durable=durable)
    fingerprint = plan_fingerprint(plan.meta, columns)
    value = {
        "format": FORMAT,
        "v": VERSION,
        "fingerprint": fingerprint,
        "meta": plan.meta.to_json(),
        "columns": columns,
    }
    with (folder / PLAN_FILE).open("wb") as file:
        file.write(canonical_json(value) + b"\n")
        sync_file(file, durable=durable)
    if durable:
        sync_folder(folder)


def read_columns(folder: Path, *, verify: bool) -> BatchPlan:
    """Return the plan in `folder`, its columns memory-mapped.

    Args:
        folder: as written by `write_columns`.
        verify: hash the columns; without it only their size and `plan.json` itself are checked.

    Raises:
        BatchPlanError: it is no complete plan of a known version, or was edited.
    """
    path = folder / PLAN_FILE
    value = read_document(path, FORMAT, VERSION, "is not that of a batch plan")
    try:
        meta, described = PlanMeta.from_json(value["meta"]), _described(value["columns"])
    except (BatchPlanError, TypeError, ValueError, KeyError) as error:
        raise BatchPlanError(f"{path} is damaged: {error}") from error
    fingerprint = plan_fingerprint(meta, described)
    if value.get("fingerprint") != fingerprint:
        raise BatchPlanError(f"{path} was edited or is damaged: its fingerprint is not that of what it says")
    arrays = _map(folder / COLUMNS_FILE, described, verify=verify)
    names = _names(path, arrays.pop(NAMES, None), meta.size)
    return BatchPlan(meta, _epochs(path, arrays, meta.settings.epochs), names=names, fingerprint=fingerprint)


def sync_file(file: BinaryIO, *, durable: bool) -> None:
    """Sync what was written to `file` to disk, if it must be `durable`."""
    file.flush()
    if durable:
        os.fsync(file.fileno())


def _described(columns: Any) -> list[dict[str, Any]]:
    keys = {"name", "type", "count", "sha256"}
    for column in columns:
        if set(column) != keys or type(column["count"]) is not int or column["count"] < 0:
            raise BatchPlanError(f"a column must have {', '.join(sorted(keys))}")
        if not isinstance(column["name"], str):
            raise BatchPlanError(f"a column cannot be called {column['name']!r}")
        if column["type"] not in (("|u1",) if column["name"] == NAMES else TYPES):
            raise BatchPlanError(f"column {column['name']} has type {column['type']!r}")
    return list(columns)


def _map(path: Path, described: list[dict[str, Any]], *, verify: bool) -> dict[str, Any]:
    places, end = [], 0
    for column in described:
        begin = end + -end % _ALIGNED
        end = begin + column["count"] * np.dtype(column["type"]).itemsize
        places.append((column, begin, end))
    try:
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise BatchPlanError(f"{path} is missing: the batch plan is not whole") from error
    if size != end:
        what = "was cut short" if size < end else "is longer than it should be"
        raise BatchPlanError(f"{path} {what}: it has {size} bytes of {end}; build the batch plan again")
    if not end:
        raise BatchPlanError(f"{path} is empty: there is no batch plan in it")
    with open_regular(path) as file:
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    for column, begin, last in places:
        if verify and hashlib.sha256(mapped[begin:last]).hexdigest() != column["sha256"]:
            raise BatchPlanError(f"{path} was edited or is damaged: SHA-256 of {column['name']} is another")
    return {column["name"]: np.frombuffer(mapped[b:e], dtype=column["type"]) for column, b, e in places}


def _names(path: Path, stored: Any, size: int) -> list[str] | None:
    if stored is None:
        return None
    try:
        names = parsed_json(stored.tobytes(), max(LARGEST, len(stored)))
    except ValueError as error:
        raise BatchPlanError(f"the samples' names in the columns of {path} are damaged: {error}") from error
    if not isinstance(names, list) or len(names) != size or not all(isinstance(name, str) for name in names):
        raise BatchPlanError(f"the columns of {path} are damaged: they do not name {size} samples")
    return names


def _epochs(path: Path, arrays: dict[str, Any], epochs: int) -> list[EpochColumns]:
    found: list[EpochColumns] = []
    try:
        for _, names in groupby(arrays, key=lambda name: name.split(".")[0]):
            columns = EpochColumns(**{name.split(".")[1]: arrays[name] for name in names})
            columns.check()
            found.append(columns)
    except (TypeError, IndexError, BatchPlanError) as error:
        raise BatchPlanError(f"{path} is damaged: {error}") from error
    prefixes = list(dict.fromkeys(name.split(".")[0] for name in arrays))
    if prefixes != [f"epoch_{epoch}" for epoch in range(epochs)]:
        raise BatchPlanError(f"{path} is damaged: it has {', '.join(prefixes)}, but {epochs} epochs planned")
    return found


# Reads the JSON files next to a batch plan.

LARGEST = 512 << 20
"""Size limit in bytes; the file may hold names and token counts of millions of samples."""


def read_object(path: Path) -> dict[str, Any]:
    """Return the object in the file `path`.

    Raises:
        BatchPlanError: it is not JSON, or not an object.
        OSError: it cannot be read.
    """
    try:
        value = parsed_json(read_bounded(path, LARGEST), LARGEST)
    except ValueError as error:
        raise BatchPlanError(f"{path} is cut short or damaged: {error}") from error
    if not isinstance(value, dict):
        raise BatchPlanError(f"{path} must hold an object, not {type(value).__name__}")
    return value


def read_document(path: Path, form: str, version: int, otherwise: str) -> dict[str, Any]:
    """Return the object in the file `path`, which must declare the format `form` and the given `version`.

    Raises:
        BatchPlanError: it does not, or is not an object; `otherwise` names what a file of another format is
            not.
        OSError: it cannot be read.
    """
    value = read_object(path)
    if value.get("format") != form:
        raise BatchPlanError(f"{path} {otherwise}")
    if value.get("v") != version:
        raise BatchPlanError(f"{path} has version {value.get('v')!r}; this Torchdeck reads version {version}")
    return value
