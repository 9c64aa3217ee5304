"""Arrays of a plan by name, for hashing and storage."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from torchdeck.data.batch_plan.columns import Column, EpochColumns
from torchdeck.data.batch_plan.meta import canonical_json

ALWAYS = ("sample_ids", "offsets", "max_len", "tokens", "bucket_id")
PACKED = ("row_offsets", "row_sizes")
NAMES = "names"
"""A column of bytes: a JSON array of the samples' names."""
TYPES = ("<i4", "<i8")


def plan_arrays(
    epochs: Iterable[EpochColumns], names: Sequence[str] | None
) -> Iterator[tuple[str, Column | np.ndarray[Any, np.dtype[np.uint8]]]]:
    """Yield name and array, little-endian and contiguous, in the order of the file."""
    for epoch, columns in enumerate(epochs):
        for name in column_names(columns):
            array = getattr(columns, name)
            yield f"epoch_{epoch}.{name}", np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    if names is not None:
        yield NAMES, np.frombuffer(canonical_json(list(names)), dtype=np.uint8)


def column_names(columns: EpochColumns) -> tuple[str, ...]:
    """Return the names of the columns that are present."""
    return ALWAYS if columns.row_sizes is None else (*ALWAYS, *PACKED)


def describe(name: str, array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return the part of an array that the fingerprint covers."""
    digest = hashlib.sha256(array.data).hexdigest()
    return {"name": name, "type": array.dtype.str, "count": len(array), "sha256": digest}
