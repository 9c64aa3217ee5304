"""What the user chose of the plots, and how it is remembered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torchdeck_app.runs.plots.catalogue import Metric
from torchdeck_app.runs.plots.x_axis import X_NAMES, XKind

MOST_SMOOTHING = 0.999


@dataclass(frozen=True)
class Choices:
    """Nothing of a run; the same for all runs."""

    kind: XKind = "step"
    log_x: bool = False
    log_y: frozenset[str] = frozenset()
    """Keys of plots with a logarithmic axis of values."""
    smoothing: float = 0.0
    order: tuple[str, ...] = ()
    """Keys in the order the user put them in; others follow in the catalogue's."""
    shown: Mapping[str, bool] = field(default_factory=dict)
    """Key → whether it is shown, where the user decided."""

    def is_shown(self, metric: Metric) -> bool:
        """Whether the plot is on the board."""
        return self.shown.get(metric.key, metric.shown)

    def sorted(self, metrics: Sequence[Metric]) -> list[Metric]:
        """All plots in the order of the board."""
        places = {key: number for number, key in enumerate(self.order)}
        if not places:
            return list(metrics)
        return sorted(metrics, key=lambda metric: places.get(metric.key, len(places)))

    def on_board(self, metrics: Sequence[Metric]) -> list[Metric]:
        """Those that are shown, in order."""
        return [metric for metric in self.sorted(metrics) if self.is_shown(metric)]

    def with_shown(self, key: str, *, on: bool) -> Choices:
        """The same, with one plot shown or hidden."""
        return replace(self, shown={**self.shown, key: on})

    def with_log_y(self, key: str, *, on: bool) -> Choices:
        """The same, with one plot's axis of values logarithmic or not."""
        return replace(self, log_y=self.log_y | {key} if on else self.log_y - {key})

    def to_json(self) -> dict[str, Any]:
        """As JSON's values."""
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
        """What `to_json` gave; whatever does not fit is as if it had not been chosen."""
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
