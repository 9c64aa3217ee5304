"""What an audit found."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SamplesCheck:
    """The samples that ranks recorded, compared with what the plan's own function gives for each step."""

    defects: tuple[str, ...] = ()
    """Differences, one sentence each; there must be none."""
    unknown: tuple[str, ...] = ()
    """What could not be compared and why, one sentence each."""
    first_step: int | None = None
    """Compared from here, on every rank; None where nothing was."""
    last_step: int | None = None
    epochs: int = 0
    """Whole epochs in which each sample was found exactly once."""
    samples: int = 0
    """Compared, of all ranks."""
    discarded_steps: int = 0
    """Recorded, and not in the history of the weights: done again after a checkpoint was restored."""

    @property
    def equal(self) -> bool:
        """All that was recorded was compared, and is as planned."""
        return self.first_step is not None and not self.defects and not self.unknown


@dataclass(frozen=True)
class RankAudit:
    """One rank, predicted and measured; None where one of the two is not known."""

    rank: int
    predicted_memory_bytes: int | None = None
    """The peak without its context: interpreter, libraries and driver are not in what is measured either."""
    predicted_low_bytes: int | None = None
    predicted_high_bytes: int | None = None
    memory_bytes: int | None = None
    """At its peak, in the newest attempt."""
    memory_kind: str = ""
    """What was measured: `allocated` (by torch on the device) or `resident` (growth of the resident set since
    before the model was built, what allocators keep for themselves in it)."""
    predicted_samples: int | None = None
    samples: int | None = None
    predicted_tokens: float | None = None
    tokens: float | None = None


@dataclass(frozen=True)
class Audit:
    """A run that is over, predicted and measured."""

    predicted_steps: int | None
    steps: int | None
    """Optimizer steps that the weights have seen."""
    ranks: tuple[RankAudit, ...]
    samples: SamplesCheck
    notes: tuple[str, ...] = ()
    """What a reader of the numbers should know."""

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers."""
        value = dataclasses.asdict(self)
        value["samples"]["equal"] = self.samples.equal
        return value
