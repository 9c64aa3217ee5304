"""Externally supplied lengths: checked, and truncated or dropped as the settings specify."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from torchdeck.data.batch_plan.columns import BatchPlanError, Column
from torchdeck.data.batch_plan.meta import PlanCounts
from torchdeck.data.batch_plan.plan_settings import PlanSettings


@dataclass(frozen=True, eq=False)
class UsableLengths:
    """The samples that a plan is made of.

    Attributes:
        lengths: tokens counted for each, 1 to the maximum length, int32, shape (n,).
        ids: their ids, ascending, shape (n,); None for all samples.
        size: samples of the data set.
        counts: counts of the samples used, truncated and dropped.
    """

    lengths: npt.NDArray[np.int32]
    ids: Column | None
    size: int
    counts: PlanCounts


def as_lengths(lengths: npt.ArrayLike) -> Column:
    """Return `lengths` as an array of whole numbers, shape (n,).

    Raises:
        BatchPlanError: there are none, or they are not whole numbers.
    """
    try:
        array = np.asarray(lengths)
    except ValueError as error:
        raise BatchPlanError(f"lengths must be one list of numbers: {error}") from None
    if array.ndim != 1:
        raise BatchPlanError(f"lengths must be one list of numbers, not of shape {array.shape}")
    if len(array) == 0:
        raise BatchPlanError("there are no lengths: a batch plan needs at least one sample")
    if array.dtype.kind == "f":
        odd = np.flatnonzero(~np.isfinite(array) | (array != np.floor(array)))
        example = f": sample {odd[0]} has {array[odd[0]]}" if len(odd) else ""
        raise BatchPlanError(f"lengths must be whole numbers, not {array.dtype.name}{example}")
    if array.dtype.kind not in "iu":
        raise BatchPlanError(f"lengths must be whole numbers, not {array.dtype.name}")
    if array.dtype == np.uint64:
        array = np.minimum(array, np.uint64(np.iinfo(np.int64).max)).astype(np.int64)
    return array


def usable_lengths(lengths: npt.ArrayLike, settings: PlanSettings) -> UsableLengths:
    """Return the usable `lengths` under the settings' `max_length`, `too_long` and `empty`.

    Raises:
        BatchPlanError: they are not lengths, or contain what the settings call an error; the message counts
            them.
    """
    array = as_lengths(lengths)
    longest = settings.longest
    negative, empty, long = (int(np.count_nonzero(array < 0)), int(np.count_nonzero(array == 0)), 0)
    if int(array.max()) > longest:
        long = int(np.count_nonzero(array > longest))
    _refuse(array, array < 0, negative, "have a negative length", "lengths count tokens")
    if settings.empty == "error":
        _refuse(array, array == 0, empty, "are empty", "leave them out (empty: drop)")
    if settings.too_long == "error":
        rule = (
            "cut or leave them out (too_long: truncate or drop), or raise the maximum length or token budget"
        )
        _refuse(array, array > longest, long, f"are longer than {longest}", rule)
    drop_long = settings.too_long == "drop"
    size, ids = len(array), None
    if empty or (long and drop_long):
        kept = array > 0
        if drop_long:
            kept &= array <= longest
        ids = _ids(np.flatnonzero(kept), size)
        array = array[kept]
    if len(array) == 0:
        raise BatchPlanError(f"none of the {size} samples is left: all are empty or longer than {longest}")
    counts = PlanCounts(
        used=len(array),
        truncated=0 if drop_long else long,
        dropped_long=long if drop_long else 0,
        dropped_empty=empty,
    )
    clipped = np.minimum(array, longest) if counts.truncated else array
    return UsableLengths(clipped.astype(np.int32, copy=False), ids, size, counts)


def lengths_fingerprint(lengths: npt.ArrayLike) -> str:
    """Return the fingerprint of a data set of which only lengths are known: `lengths-` and SHA-256 in
    hexadecimal.

    Raises:
        BatchPlanError: they are not lengths.
    """
    array = np.ascontiguousarray(as_lengths(lengths), dtype="<i8")
    return "lengths-" + hashlib.sha256(array.data).hexdigest()


def id_type(size: int) -> np.dtype[np.signedinteger[Any]]:
    """Return the narrower of int32 and int64 that holds every id of a data set of `size` samples."""
    return np.dtype(np.int32 if size <= np.iinfo(np.int32).max else np.int64)


def _ids(ids: npt.NDArray[np.intp], size: int) -> Column:
    return ids.astype(id_type(size), copy=False)


def _refuse(array: Column, wrong: npt.NDArray[np.bool_], count: int, what: str, rule: str) -> None:
    if count:
        first = int(np.flatnonzero(wrong)[0])
        raise BatchPlanError(
            f"{count} of {len(array)} samples {what} (the first is sample {first}, "
            f"of length {int(array[first])}): {rule}"
        )
