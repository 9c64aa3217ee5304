"""Series of a plot as pyqtgraph's legend and CSV export expect them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from PySide6.QtGui import QColor, QPen

from torchdeck.runs.plots.exchange import Band, Curve, PlotData


class DrawnSeries:
    """One curve or band."""

    def __init__(
        self, series: Curve | Band, colour: QColor, hidden: frozenset[str], show: Callable[[str, bool], None]
    ) -> None:
        self._series = series
        self._is_visible = series.label not in hidden
        self._show = show
        self.opts = {"pen": QPen(colour, 2)}

    def implements(self, interface: str) -> bool:
        """Return whether it has points to export."""
        return interface == "plotData"

    def name(self) -> str:
        """Return its label."""
        return self._series.label

    def getOriginalDataset(self) -> tuple[Any, Any]:  # noqa: N802 - pyqtgraph's name
        """Return x and y as drawn."""
        return self._series.x, self._series.median if isinstance(self._series, Band) else self._series.y

    def isVisible(self) -> bool:  # noqa: N802 - Qt's name
        """Return whether it is drawn."""
        return self._is_visible

    def setVisible(self, visible: bool) -> None:  # noqa: FBT001, N802 - Qt's name
        """Draw it or not."""
        self._is_visible = visible
        self._show(self._series.label, visible)


def without(content: PlotData, hidden: frozenset[str]) -> PlotData:
    """Return the content without the series of these labels."""
    if not hidden:
        return content
    return replace(
        content,
        curves=tuple(each for each in content.curves if each.label not in hidden),
        bands=tuple(each for each in content.bands if each.label not in hidden),
    )
