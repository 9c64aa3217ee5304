"""What one line, one record of a file or one call of a trainer's hook says about training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Reading:
    """One moment of training, as a program reported it; None where it did not say."""

    values: Mapping[str, float] = field(default_factory=dict)
    """Metrics by the program's own names."""
    step: int | None = None
    """Optimizer steps completed."""
    total: int | None = None
    """Optimizer steps planned."""
    epoch: float | None = None
    time: float | None = None
    """Unix seconds at which the program reported it."""
