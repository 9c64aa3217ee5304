"""Expected needs and usage of a run; kept in its plan, and compared with what was measured.

Standard library only, Python 3.10: part of plan.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

RankRanges = tuple[tuple[int, int], ...]
"""Ranks as ranges, first and last each."""


@dataclass(frozen=True)
class PredictedMemory:
    """Memory of ranks with equal requirements, in bytes."""

    ranks: RankRanges
    peak_bytes: int
    low_bytes: int
    """Lower bound; the peak is expected between this and the upper one."""
    high_bytes: int
    phase: str
    """Phase of the peak: `forward`, `backward`, `optimizer`, `setup`."""
    terms: Mapping[str, int]
    """Terms that add up to `peak_bytes`, largest first."""
    state: Mapping[str, int]
    """Exact: bytes of `parameters`, `gradients` and `optimizer` that the rank keeps between steps."""
    capacity_bytes: int | None
    """Capacity of its device, or its share of the machine's memory for CPU ranks; None if unknown."""
    free_bytes: int | None
    """Free part of it when the plan was made; None if unknown."""
    verdict: str
    """`fits`, `tight`, `does not fit` or `unknown`."""


@dataclass(frozen=True)
class RankCounts:
    """Samples that ranks `first` to `last` read in the whole run, each of them."""

    first: int
    last: int
    samples: int
    tokens: float | None
    """None if samples have no known length."""


@dataclass(frozen=True)
class PredictedData:
    """Data that the ranks read, from the very start to the last step."""

    source: str
    """`seeded order`, or `batch plan`."""
    fingerprint: str
    """Fingerprint of the batch plan; empty for a seeded order."""
    size: int
    """Samples of the data set."""
    steps_per_epoch: int
    steps: int
    """Total optimizer steps."""
    ranks: tuple[RankCounts, ...]


@dataclass(frozen=True)
class Prediction:
    """All predictions; empty fields were not predicted."""

    source: str
    """`traced`, `closed form`, or empty if nothing is known of the model."""
    memory: tuple[PredictedMemory, ...] = ()
    data: PredictedData | None = None
    notes: tuple[str, ...] = ()
    """Why a prediction is missing, what is not validated: one sentence each."""
    cheaper: tuple[str, ...] = ()
    """Changes that need less memory, the nearest first, one sentence each; for runs on GPUs."""

    def memory_of(self, rank: int) -> PredictedMemory | None:
        """Return the expected memory of `rank`."""
        for memory in self.memory:
            if any(first <= rank <= last for first, last in memory.ranks):
                return memory
        return None

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Prediction:
        """Return the prediction in a plan.json; raises KeyError, TypeError or ValueError if it is not one."""
        data = value["data"]
        return cls(
            source=str(value["source"]),
            memory=tuple(
                PredictedMemory(
                    **{
                        **memory,
                        "ranks": tuple((int(first), int(last)) for first, last in memory["ranks"]),
                    }
                )
                for memory in value["memory"]
            ),
            data=None
            if data is None
            else PredictedData(**{**data, "ranks": tuple(RankCounts(**counts) for counts in data["ranks"])}),
            notes=tuple(str(note) for note in value["notes"]),
            cheaper=tuple(str(change) for change in value.get("cheaper", ())),
        )
