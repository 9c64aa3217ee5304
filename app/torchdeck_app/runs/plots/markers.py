"""Moments of a run that plots mark: starts of attempts, saved checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MarkKind = Literal["attempt", "checkpoint", "failure"]


@dataclass(frozen=True)
class Mark:
    """One moment."""

    time: float
    """Unix seconds."""
    step: int | None
    """Where it belongs to a step."""
    kind: MarkKind
    text: str
    """What is said of it, such as `checkpoint 1,200 saved in 3.1 s`."""
