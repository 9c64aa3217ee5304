"""Result of an audit."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SamplesCheck:
    """Comparison of the recorded samples with those that the plan's own function gives for each step."""

    defects: tuple[str, ...] = ()
    """Differences, one sentence each; there must be none."""
    unknown: tuple[str, ...] = ()
    """Records that could not be compared, and why, one sentence each."""
    first_step: int | None = None
    """First step compared on every rank; None if none was."""
    last_step: int | None = None
    epochs: int = 0
    """Whole epochs in which each sample was found exactly once."""
    samples: int = 0
    """Samples compared, over all ranks."""
    discarded_steps: int = 0
    """Steps recorded but not in the history of the weights: repeated after a checkpoint was restored."""

    @property
    def equal(self) -> bool:
        """Whether every record was compared and is as planned."""
        return self.first_step is not None and not self.defects and not self.unknown


@dataclass(frozen=True)
class RankAudit:
    """One rank, predicted and measured; None if one of the two is not known."""

    rank: int
    predicted_memory_bytes: int | None = None
    """Peak without its context: interpreter, libraries and driver are not in the measurement either."""
    predicted_low_bytes: int | None = None
    predicted_high_bytes: int | None = None
    memory_bytes: int | None = None
    """Peak in the newest attempt."""
    memory_kind: str = ""
    """Kind of measurement: `allocated` (by torch on the device) or `resident` (growth of the resident set
    since before the model was built, including what allocators keep for themselves).
    """
    predicted_samples: int | None = None
    samples: int | None = None
    predicted_tokens: float | None = None
    tokens: float | None = None


@dataclass(frozen=True)
class Audit:
    """Finished run, predicted and measured."""

    predicted_steps: int | None
    steps: int | None
    """Optimizer steps in the history of the weights."""
    ranks: tuple[RankAudit, ...]
    samples: SamplesCheck
    notes: tuple[str, ...] = ()
    """Notes for interpreting the numbers."""

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers."""
        value = dataclasses.asdict(self)
        value["samples"]["equal"] = self.samples.equal
        return value
