"""A moment of training, as a program reported it: in a line, a record of a file, or a call of its hook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torchdeck.contract.run_states import RankPhase


@dataclass(frozen=True)
class Reading:
    """A moment of training; None where the program did not say."""

    values: Mapping[str, float] = field(default_factory=dict)
    """Metrics by the program's own names."""
    step: int | None = None
    """Optimizer steps completed."""
    total: int | None = None
    """Optimizer steps planned."""
    epoch: float | None = None
    time: float | None = None
    """Unix seconds at which the program reported it."""
    phase: RankPhase | None = None
    """The program does this from then on."""
