"""Events of a run that plots mark: starts of attempts, saved checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MarkKind = Literal["attempt", "checkpoint", "failure"]


@dataclass(frozen=True)
class Mark:
    """Marker for one event."""

    time: float
    """Unix seconds."""
    step: int | None
    """Step of the event, if it has one."""
    kind: MarkKind
    text: str
    """Description, such as `checkpoint 1,200 saved in 3.1 s`."""
