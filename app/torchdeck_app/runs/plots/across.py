"""The x axis that all plots share."""

from __future__ import annotations

from dataclasses import dataclass

from torchdeck_app.runs.plots.x_axis import XKind


@dataclass(frozen=True)
class Across:
    """Which x is shown, from where to where."""

    kind: XKind
    low: float
    high: float
    log: bool = False
