"""A batch plan's metadata, and its fingerprint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from torchdeck.contract.bounded_json import LIMIT, parse_json
from torchdeck.data.batch_plan.columns import BatchPlanError, Column, EpochColumns
from torchdeck.data.batch_plan.plan_settings import PlanSettings


@dataclass(frozen=True)
class PlanCounts:
    """Counts of the data set's samples by outcome."""

    used: int = 0
    """Used once in every epoch."""
    truncated: int = 0
    """Used samples longer than the maximum, counted with the maximum."""
    dropped_long: int = 0
    dropped_empty: int = 0

    def sentence(self) -> str:
        """`9 of 10 samples used, 1 of them truncated; dropped: 1 too long`."""
        dropped = [
            f"{count} {why}"
            for count, why in ((self.dropped_long, "too long"), (self.dropped_empty, "empty"))
            if count
        ]
        cut = f", {self.truncated} of them truncated" if self.truncated else ""
        total = self.used + self.dropped_long + self.dropped_empty
        return f"{self.used} of {total} samples used{cut}" + (
            f"; dropped: {', '.join(dropped)}" if dropped else ""
        )


@dataclass(frozen=True)
class ShardOf:
    """Identifies a shard's plan and its part of it."""

    fingerprint: str
    """Fingerprint of the whole plan."""
    rank: int
    world_size: int
    balance: str = "none"


@dataclass(frozen=True)
class PlanMeta:
    """Inputs and settings a batch plan was made from.

    Raises:
        BatchPlanError: a fingerprint is not a string, the size or a bound is not a whole number, or there are
            no bounds.
    """

    settings: PlanSettings
    size: int
    """Samples of the data set; ids are 0 to size − 1."""
    bounds: tuple[int, ...]
    """Upper bound of each bucket, inclusive, in tokens."""
    dataset_fingerprint: str
    tokenizer_fingerprint: str = ""
    counts: PlanCounts = field(default_factory=PlanCounts)
    shard: ShardOf | None = None

    def __post_init__(self) -> None:
        for name in ("dataset_fingerprint", "tokenizer_fingerprint"):
            if not isinstance(getattr(self, name), str):
                raise BatchPlanError(f"{name} must be a text, not {getattr(self, name)!r}")
        for number in (self.size, *self.bounds):
            if type(number) is not int or number < 0:
                raise BatchPlanError(f"size and bounds must be whole numbers from 0, not {number!r}")
        if not self.bounds:
            raise BatchPlanError("there must be a bound for at least one bucket")

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "settings": self.settings.to_json(), "bounds": list(self.bounds)}

    @classmethod
    def from_json(cls, value: Any) -> PlanMeta:
        """Return the metadata in `value`.

        Raises:
            BatchPlanError: it is something else.
        """
        names = {field.name for field in fields(cls)}
        if not isinstance(value, Mapping) or set(value) != names:
            raise BatchPlanError(f"meta must be an object with {', '.join(sorted(names))}")
        try:
            return cls(
                settings=PlanSettings.from_json(value["settings"]),
                size=value["size"],
                bounds=tuple(value["bounds"]),
                dataset_fingerprint=value["dataset_fingerprint"],
                tokenizer_fingerprint=value["tokenizer_fingerprint"],
                counts=PlanCounts(**value["counts"]),
                shard=None if value["shard"] is None else ShardOf(**value["shard"]),
            )
        except TypeError as error:
            raise BatchPlanError(f"meta is not that of a batch plan: {error}") from error


def canonical_json(value: Any) -> bytes:
    """Return `value` as JSON in the canonical form that is hashed: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def parsed_json(content: bytes, limit: int = LIMIT) -> Any:
    """Return the JSON value in `content`, at most `limit` bytes; raises ValueError with the reason if there
    is none.
    """
    return parse_json(content, limit=limit, file_names=True)


def plan_fingerprint(meta: PlanMeta, columns: list[dict[str, Any]]) -> str:
    """Return the SHA-256 in hexadecimal over metadata and the columns' names, types, lengths and hashes."""
    return hashlib.sha256(canonical_json({"meta": meta.to_json(), "columns": columns})).hexdigest()


# Arrays of a plan by name, for hashing and storage.

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
