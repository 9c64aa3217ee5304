"""X axis shared by all plots."""

from __future__ import annotations

from dataclasses import dataclass

from torchdeck_app.runs.plots.x_axis import XKind


@dataclass(frozen=True)
class Across:
    """Quantity on the x axis and its range."""

    kind: XKind
    low: float
    high: float
    log: bool = False
