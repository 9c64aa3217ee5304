"""How far a training is, in memory: what another `Trainer` over the same parts needs to go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Progress:
    """Where a training is and what it has seen."""

    position: dict[str, Any]
    """`DataPosition.to_json()`: it is checked against the data that training goes on with."""
    tokens: float = 0.0
    """Trained on since the very start."""
    samples: int = 0
    tokens_per_sample: float | None = None
    """`Stepper.tokens_per_sample`."""
    evaluated_step: int | None = None
    """The newest step that was evaluated."""
    early_stopping: Mapping[str, Any] = field(default_factory=dict)
    """`EarlyStopping.state_dict()`."""
