"""Small charts beside each other, in two rows where one has no room for their words."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QGridLayout, QWidget

from torchdeck_app.widgets.panel import GRID

_LEAST = 200
"""Pixels for a title and a value such as `3.1 GiB of 23.5 GiB`."""


class ChartGrid(QWidget):
    """All in one row, or half of them in each of two."""

    def __init__(self, charts: Sequence[QWidget], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._charts = tuple(charts)
        self._columns = 0
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(3 * GRID)
        self._grid.setVerticalSpacing(GRID)
        self._lay(len(self._charts))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        count = len(self._charts)
        self._lay(count if event.size().width() >= count * (_LEAST + 3 * GRID) else -(-count // 2))

    def _lay(self, columns: int) -> None:
        if columns == self._columns:
            return
        self._columns = columns
        for at, chart in enumerate(self._charts):
            self._grid.addWidget(chart, at // columns, at % columns)
        for column in range(len(self._charts)):
            self._grid.setColumnStretch(column, 1 if column < columns else 0)
