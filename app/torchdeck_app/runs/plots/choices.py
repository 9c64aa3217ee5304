"""The user's choice of plots and axes, and its storage."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torchdeck.metrics.formula import PREFIX, formula_of
from torchdeck.runs.plots.catalogue import Metric
from torchdeck.runs.plots.x_axis import X_NAMES, XKind

MOST_SMOOTHING = 0.999
MOST_FORMULAS = 20


@dataclass(frozen=True)
class YAxis:
    """Choice for the y axis of one plot."""

    log: bool = False
    low: float | None = None
    """Lower end. Default: follows the data."""
    high: float | None = None

    def limited(self, fitted: tuple[float, float]) -> tuple[float, float]:
        """Return a range with the chosen ends; `fitted` if they leave no range or no logarithm."""
        low = fitted[0] if self.low is None else self.low
        high = fitted[1] if self.high is None else self.high
        return (low, high) if low < high and not (self.log and low <= 0) else fitted


@dataclass(frozen=True)
class Choices:
    """Choice of plots, shared by all runs."""

    kind: XKind = "step"
    log_x: bool = False
    log_y: bool = False
    """Whether y axes are logarithmic, except those of `other_y`."""
    other_y: frozenset[str] = frozenset()
    """Keys of plots whose y axis is the other way."""
    limits: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    """Key → ends of the y axis; None follows the data."""
    smoothing: float = 0.0
    by_window: bool = False
    """Whether smoothing is the mean of a window, instead of an exponential average."""
    order: tuple[str, ...] = ()
    """Keys in the user's order; others follow in the catalogue's order."""
    shown: Mapping[str, bool] = field(default_factory=dict)
    """Key → whether it is shown, if the user decided."""
    formulas: tuple[str, ...] = ()
    """Formulas that have a plot each."""

    def is_shown(self, metric: Metric) -> bool:
        """Return whether the plot is in the grid."""
        return self.shown.get(metric.key, metric.shown)

    def sorted(self, metrics: Sequence[Metric]) -> list[Metric]:
        """Return all plots in the order of the grid."""
        places = {key: number for number, key in enumerate(self.order)}
        if not places:
            return list(metrics)
        return sorted(metrics, key=lambda metric: places.get(metric.key, len(places)))

    def on_board(self, metrics: Sequence[Metric]) -> list[Metric]:
        """Return the shown plots in order."""
        return [metric for metric in self.sorted(metrics) if self.is_shown(metric)]

    def y_axis(self, key: str) -> YAxis:
        """Return the choice for the y axis of one plot."""
        return YAxis(self.log_y != (key in self.other_y), *self.limits.get(key, (None, None)))

    def with_shown(self, key: str, *, on: bool) -> Choices:
        """Return a copy with one plot shown or hidden."""
        return replace(self, shown={**self.shown, key: on})

    def with_log_y(self, key: str, *, on: bool) -> Choices:
        """Return a copy with one plot's y axis logarithmic or linear."""
        return replace(self, other_y=self.other_y | {key} if on != self.log_y else self.other_y - {key})

    def with_limits(self, key: str, low: float | None, high: float | None) -> Choices:
        """Return a copy with the ends of one plot's y axis; None follows the data."""
        others = {other: ends for other, ends in self.limits.items() if other != key}
        return replace(self, limits=others if low is None and high is None else {**others, key: (low, high)})

    def to_json(self) -> dict[str, Any]:
        """Return the choices as JSON values."""
        return {
            "axis": self.kind,
            "log_x": self.log_x,
            "all_log_y": self.log_y,
            "log_y": sorted(self.other_y),
            "limits": {key: list(ends) for key, ends in self.limits.items()},
            "smoothing": self.smoothing,
            "by_window": self.by_window,
            "order": list(self.order),
            "shown": dict(self.shown),
            "formulas": list(self.formulas),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Choices:
        """Restore choices from `to_json`; invalid entries are ignored."""
        kind, smoothing, shown = value.get("axis"), value.get("smoothing"), value.get("shown")
        limits = value.get("limits")
        return cls(
            kind if kind in X_NAMES else "step",
            value.get("log_x") is True,
            value.get("all_log_y") is True,
            frozenset(_texts(value.get("log_y"))),
            {key: ends for key, item in limits.items() if (ends := _ends(item))}
            if isinstance(limits, dict)
            else {},
            min(max(float(smoothing), 0.0), MOST_SMOOTHING) if isinstance(smoothing, (int, float)) else 0.0,
            value.get("by_window") is True,
            tuple(_texts(value.get("order"))),
            {key: on for key, on in shown.items() if isinstance(on, bool)} if isinstance(shown, dict) else {},
            tuple(text for text in _texts(value.get("formulas")) if formula_of(f"{PREFIX}{text}"))[
                :MOST_FORMULAS
            ],
        )


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _ends(value: Any) -> tuple[float | None, float | None] | None:
    """Return valid limits from JSON; None if they are invalid."""
    if not isinstance(value, list) or len(value) != 2:
        return None
    if not all(end is None or (isinstance(end, (int, float)) and math.isfinite(end)) for end in value):
        return None
    return value[0], value[1]
