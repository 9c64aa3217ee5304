"""Requested properties of a batch plan: budget, seed, buckets, and the handling of unusual lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np

from torchdeck.data.batch_plan.columns import BatchPlanError
from torchdeck.data.checked import as_whole

LARGEST = 2**31 - 1
"""Maximum of a length and of a token budget, in tokens: they are stored in 32 bits."""
MOST_BUCKETS = 1024
MOST_EPOCHS = 1 << 16
TOO_LONG = ("error", "truncate", "drop")
EMPTY = ("error", "drop")
PAD_TO = ("longest", "bucket")


@dataclass(frozen=True)
class PlanSettings:
    """Everything besides the lengths that determines a batch plan.

    Attributes:
        token_budget: most tokens of a microbatch, including padding.
        seed: 0 to 2⁶⁴ − 1.
        epochs: 1 to 65,536.
        buckets: maximum number of length buckets (fewer if the data set is small), or their upper bounds,
            inclusive and ascending, in tokens. Not used with `pack`.
        max_length: tokens of the longest sample (with `pack`: of a row); None means the token budget.
        too_long: handling of longer samples: "error", "truncate" (they count with `max_length`; the
            reader of the samples truncates them) or "drop".
        empty: handling of samples of length 0: "error" or "drop".
        pack: concatenate several samples in one row of up to `max_length` tokens.
        pad_to: "longest": `max_len` is the longest of the microbatch (with `pack`: its fullest row);
            "bucket": it is the bucket's upper bound (with `pack`: `max_length`), so that shapes repeat.

    Raises:
        BatchPlanError: a value is out of range.
    """

    token_budget: int
    seed: int = 0
    epochs: int = 1
    buckets: int | tuple[int, ...] = 32
    max_length: int | None = None
    too_long: str = "error"
    empty: str = "error"
    pack: bool = False
    pad_to: str = "longest"

    def __post_init__(self) -> None:
        checked: dict[str, int | tuple[int, ...]] = {
            "token_budget": _whole("token budget", self.token_budget, 1, LARGEST),
            "seed": _whole("seed", self.seed, 0, 2**64 - 1),
            "epochs": _whole("epochs", self.epochs, 1, MOST_EPOCHS),
            "buckets": checked_buckets(self.buckets),
        }
        if self.max_length is not None:
            checked["max_length"] = _whole("maximum length", self.max_length, 1, LARGEST)
            if self.max_length > self.token_budget:
                raise BatchPlanError(
                    f"a sample of the maximum length {self.max_length} would not fit the token budget "
                    f"{self.token_budget}: raise the budget or lower the maximum"
                )
        for name, chosen, known in (
            ("too_long", self.too_long, TOO_LONG),
            ("empty", self.empty, EMPTY),
            ("pad_to", self.pad_to, PAD_TO),
        ):
            if chosen not in known:
                raise BatchPlanError(f"{name} must be one of {', '.join(known)}, not {chosen!r}")
        if type(self.pack) is not bool:
            raise BatchPlanError(f"pack must be true or false, not {self.pack!r}")
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def longest(self) -> int:
        """Return the tokens of the longest sample that is used unchanged."""
        return self.token_budget if self.max_length is None else self.max_length

    def to_json(self) -> dict[str, Any]:
        value = {field.name: getattr(self, field.name) for field in fields(self)}
        if isinstance(self.buckets, tuple):
            value["buckets"] = list(self.buckets)
        return value

    @classmethod
    def from_json(cls, value: Any) -> PlanSettings:
        """Return the settings in `value`.

        Raises:
            BatchPlanError: it is something else.
        """
        names = {field.name for field in fields(cls)}
        if not isinstance(value, Mapping) or set(value) != names:
            raise BatchPlanError(f"settings must be an object with {', '.join(sorted(names))}")
        return cls(**value)


def checked_buckets(buckets: int | Sequence[int]) -> int | tuple[int, ...]:
    """Return `buckets` in the form PlanSettings stores; raises BatchPlanError if out of range."""
    if not isinstance(buckets, (tuple, list, np.ndarray)):
        return _whole("number of buckets", buckets, 1, MOST_BUCKETS)
    if not 1 <= len(buckets) <= MOST_BUCKETS:
        raise BatchPlanError(f"there must be 1 to {MOST_BUCKETS} buckets, not {len(buckets)}")
    bounds = tuple(_whole("a bucket's upper bound", bound, 1, LARGEST) for bound in buckets)
    if any(low >= high for low, high in pairwise(bounds)):
        raise BatchPlanError(f"upper bounds of buckets must ascend: {', '.join(map(str, bounds))} do not")
    return bounds


def _whole(name: str, value: Any, least: int, most: int) -> int:
    number = as_whole(value)
    if number is None or not least <= number <= most:
        raise BatchPlanError(f"{name} must be a whole number from {least} to {most}, not {value!r}")
    return number
