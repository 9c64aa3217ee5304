"""Read-only table of texts: keys in the first column, values in the others."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, Qt
from PySide6.QtGui import (
    QFont,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QPalette,
    QStandardItem,
    QStandardItemModel,
)
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from torchdeck.shown_text import shown
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.row_tree import RowDelegate

_WIDEST = 360
"""Maximum width of a column in pixels."""


class GridTable(QTableView):
    """Table of texts whose selection can be copied."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setItemDelegate(RowDelegate(self))
        self.setTabKeyNavigation(False)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(self.fontMetrics().height() + 10)
        self.horizontalHeader().setHighlightSections(False)
        self.horizontalHeader().setDefaultAlignment(
            Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        )
        self._shown: tuple[tuple[str, ...], list[tuple[str, ...]]] | None = None

    def set_rows(
        self, headings: Sequence[str], rows: Sequence[Sequence[str]], *, fixed_width: bool = False
    ) -> None:
        """Show `rows`, each with one text per column; does nothing if they are unchanged."""
        if (shown := (tuple(headings), [tuple(row) for row in rows])) == self._shown:
            return
        self._shown = shown
        model = QStandardItemModel(0, len(headings), self)
        model.setHorizontalHeaderLabels(list(headings))
        face = font(Type.MONO) if fixed_width else None
        for row in rows:
            model.appendRow([_item(text, face if column else None) for column, text in enumerate(row)])
        before = self.model()
        self.setModel(model)
        if before is not None:
            before.deleteLater()
        self.resizeColumnsToContents()
        for column in range(len(headings)):
            self.setColumnWidth(column, min(_WIDEST, self.columnWidth(column)))
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        self.horizontalHeader().setStretchLastSection(True)

    def texts(self) -> list[tuple[str, ...]]:
        """Return the shown rows."""
        return [] if self._shown is None else self._shown[1]

    def row_of_the_keyboard(self) -> QRect:
        """Return the focus rectangle around the current row; empty without one."""
        current = self.currentIndex()
        if not current.isValid() or not self.hasFocus():
            return QRect()
        first = self.visualRect(current.siblingAtColumn(0))
        last = self.visualRect(current.siblingAtColumn(current.model().columnCount() - 1))
        return first.united(last).adjusted(0, 0, -1, -1)

    def currentChanged(  # noqa: N802 - Qt's name
        self, current: QModelIndex | QPersistentModelIndex, previous: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Repaint whole rows, as the focus frame spans them and Qt repaints only a cell."""
        super().currentChanged(current, previous)
        self.viewport().update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        super().paintEvent(event)
        around = self.row_of_the_keyboard()
        if not around.isEmpty():
            painter = QPainter(self.viewport())
            painter.setPen(self.palette().color(QPalette.ColorRole.Accent))
            painter.drawRect(around)
            painter.end()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        if event.matches(QKeySequence.StandardKey.Copy) and self.model() is not None:
            rows = sorted({index.row() for index in self.selectedIndexes()})
            columns = range(self.model().columnCount())
            lines = ("\t".join(str(self.model().index(row, c).data()) for c in columns) for row in rows)
            QGuiApplication.clipboard().setText("\n".join(lines))
        else:
            super().keyPressEvent(event)


def _item(text: str, face: QFont | None) -> QStandardItem:
    item = QStandardItem(shown(text).replace("\n", " "))
    item.setToolTip(plain_tip(text[:2000]))
    if face is not None:
        item.setFont(face)
    return item
