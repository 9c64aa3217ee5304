"""The arrays of a plan by name: what is hashed, and what is stored."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from torchdeck.data.batch_plan.columns import Column, EpochColumns
from torchdeck.data.batch_plan.meta import canonical_json

if TYPE_CHECKING:
    from torchdeck.data.batch_plan.plan import BatchPlan

ALWAYS = ("sample_ids", "offsets", "max_len", "tokens", "bucket_id")
PACKED = ("row_offsets", "row_sizes")
NAMES = "names"
"""A column of bytes: a JSON array of the samples' names."""
TYPES = ("<i4", "<i8")


def plan_arrays(plan: BatchPlan) -> Iterator[tuple[str, Column | np.ndarray[Any, np.dtype[np.uint8]]]]:
    """Name and array, little-endian and contiguous, in the order of the file."""
    for epoch in range(plan.epochs):
        columns = plan.epoch_columns(epoch)
        for name in column_names(columns):
            array = getattr(columns, name)
            yield f"epoch_{epoch}.{name}", np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    if plan.names is not None:
        yield NAMES, np.frombuffer(canonical_json(list(plan.names)), dtype=np.uint8)


def column_names(columns: EpochColumns) -> tuple[str, ...]:
    """The columns that these have."""
    return ALWAYS if columns.row_sizes is None else (*ALWAYS, *PACKED)


def describe(name: str, array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """What the fingerprint covers of an array."""
    digest = hashlib.sha256(array.data).hexdigest()
    return {"name": name, "type": array.dtype.str, "count": len(array), "sha256": digest}


def described(plan: BatchPlan) -> list[dict[str, Any]]:
    """All arrays of `plan`, described."""
    return [describe(name, array) for name, array in plan_arrays(plan)]
