"""The user's choice of plots, and its storage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torchdeck_app.runs.plots.catalogue import Metric
from torchdeck_app.runs.plots.x_axis import X_NAMES, XKind

MOST_SMOOTHING = 0.999


@dataclass(frozen=True)
class Choices:
    """Choice of plots, shared by all runs."""

    kind: XKind = "step"
    log_x: bool = False
    log_y: frozenset[str] = frozenset()
    """Keys of plots with a logarithmic y axis."""
    smoothing: float = 0.0
    order: tuple[str, ...] = ()
    """Keys in the user's order; others follow in the catalogue's order."""
    shown: Mapping[str, bool] = field(default_factory=dict)
    """Key → whether it is shown, if the user decided."""

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

    def with_shown(self, key: str, *, on: bool) -> Choices:
        """Return a copy with one plot shown or hidden."""
        return replace(self, shown={**self.shown, key: on})

    def with_log_y(self, key: str, *, on: bool) -> Choices:
        """Return a copy with one plot's y axis logarithmic or linear."""
        return replace(self, log_y=self.log_y | {key} if on else self.log_y - {key})

    def to_json(self) -> dict[str, Any]:
        """Return the choices as JSON values."""
        return {
            "axis": self.kind,
            "log_x": self.log_x,
            "log_y": sorted(self.log_y),
            "smoothing": self.smoothing,
            "order": list(self.order),
            "shown": dict(self.shown),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Choices:
        """Restore choices from `to_json`; invalid entries are ignored."""
        kind, smoothing, shown = value.get("axis"), value.get("smoothing"), value.get("shown")
        return cls(
            kind if kind in X_NAMES else "step",
            value.get("log_x") is True,
            frozenset(_texts(value.get("log_y"))),
            min(max(float(smoothing), 0.0), MOST_SMOOTHING) if isinstance(smoothing, (int, float)) else 0.0,
            tuple(_texts(value.get("order"))),
            {key: on for key, on in shown.items() if isinstance(on, bool)} if isinstance(shown, dict) else {},
        )


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
