"""The tree as a table whose columns share the room there is."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QTreeView, QWidget

from torchdeck_app.launch.preview.parameters.model import Column, ParameterModel
from torchdeck_app.launch.preview.parameters.rows_delegate import RowsDelegate
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.theme import Theme

_LEAST = {
    Column.NAME: 128,
    Column.SHAPE: 104,
    Column.TYPE: 60,
    Column.SIZE: 74,
    Column.ROWS: 102,
    Column.HELD: 78,
    Column.SHARE: 58,
}
_ROOMY = {
    Column.NAME: 236,
    Column.SHAPE: 132,
    Column.TYPE: 84,
    Column.SIZE: 98,
    Column.ROWS: 156,
    Column.HELD: 98,
    Column.SHARE: 92,
}
"""Pixels of each column where there is little room, and where there is enough."""


def column_widths(room: int) -> dict[Column, int]:
    """All columns in `room` pixels, if they fit at all; what is left when all are roomy is the names'."""
    least, roomy = sum(_LEAST.values()), sum(_ROOMY.values())
    part = min(1.0, max(0.0, (room - least) / (roomy - least)))
    widths = {column: int(_LEAST[column] + part * (_ROOMY[column] - _LEAST[column])) for column in Column}
    widths[Column.NAME] += max(0, room - sum(widths.values()))
    return widths


class ParameterTable(QTreeView):
    """Shows a `ParameterModel`."""

    def __init__(self, theme: Theme, model: ParameterModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Parameters of the model")
        self.setModel(model)
        for part in (self, self.header()):
            part.setFont(font(Type.SMALL))
        self.setUniformRowHeights(True)
        self.setIndentation(14)
        self.setStyleSheet("QTreeView::item { padding: 0 5px; }")  # as much as the header's
        self.setSelectionMode(QTreeView.SelectionMode.ExtendedSelection)
        self.setItemDelegateForColumn(Column.ROWS, RowsDelegate(theme, self))
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.header().setStretchLastSection(False)
        self.header().setMinimumSectionSize(40)
        self.header().sectionResized.connect(self._resized)
        self._own: set[int] = set()
        self._sharing = False
        theme.changed.connect(self.viewport().update)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self._sharing = True
        for column, width in column_widths(self.viewport().width()).items():
            if column not in self._own:
                self.setColumnWidth(column, width)
        self._sharing = False

    def _resized(self, column: int, _old: int, _new: int) -> None:
        """A column that a person has drawn to a width keeps it."""
        if not self._sharing:
            self._own.add(column)
