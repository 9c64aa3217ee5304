"""The list of problems under the document; it stays as high as it is while problems come and go."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QListView, QListWidget, QListWidgetItem, QVBoxLayout, QWidget

from torchdeck_app.launch.problems.delegate import ROW_ROLE, ProblemDelegate, right_text, wrong_text
from torchdeck_app.launch.problems.rows import ProblemRow, headline
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.elided_label import ElidedLabel
from torchdeck_app.widgets.panel import GRID
from torchdeck_app.widgets.tooltip import plain_tip


class ProblemList(QWidget):
    """A header that counts, over the problems; Enter or a click leads to one."""

    chosen = Signal(object)
    """A ProblemRow."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._rows: tuple[ProblemRow, ...] = ()
        self.header = ElidedLabel()
        self.header.setContentsMargins(GRID, 0, GRID, 0)
        self.list = QListWidget()
        self.list.setFrameShape(QFrame.Shape.NoFrame)
        self.list.setAccessibleName("List of problems")
        self.list.setToolTip("Enter or a click leads to the field and the line")
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.list.setResizeMode(QListView.ResizeMode.Adjust)
        self._delegate = ProblemDelegate(theme)
        self.list.setItemDelegate(self._delegate)
        self.list.itemClicked.connect(lambda _item: self._choose())
        self.list.itemActivated.connect(lambda _item: self._choose())
        self.setMinimumHeight(72)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 4, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(self.header)
        layout.addWidget(self.list, 1)
        layout.addStretch(0)
        theme.changed.connect(self._draw)
        self._draw()

    @property
    def rows(self) -> tuple[ProblemRow, ...]:
        return self._rows

    def show_rows(self, rows: tuple[ProblemRow, ...]) -> None:
        """List these; the row that was current stays so where it is still there."""
        if rows == self._rows:
            return
        index = self.list.currentRow()
        kept = self._rows[index] if 0 <= index < len(self._rows) else None
        self._rows = rows
        self._draw()
        if kept in rows:
            self.list.setCurrentRow(rows.index(kept))

    def take_focus(self) -> None:
        """The keyboard is for the list, where there is something in it: Enter leads to the first problem."""
        if self._rows:
            if self.list.currentRow() < 0:
                self.list.setCurrentRow(0)
            self.list.setFocus()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self.list.scheduleDelayedItemsLayout()

    def _choose(self) -> None:
        index = self.list.currentRow()
        if 0 <= index < len(self._rows):
            self.chosen.emit(self._rows[index])

    def _draw(self) -> None:
        some = bool(self._rows)
        text = headline(self._rows)
        self.header.setText(f"{'✕' if some else '✓'} {text}")
        self.header.setToolTip(plain_tip(text))
        self.header.setAccessibleName(text)
        # by the style sheet, as the application's own decides over a palette
        self.header.setStyleSheet(f"color: {self._theme.colour('bad' if some else 'secondary').name()}")
        self.list.setVisible(some)
        self.list.clear()
        for row in self._rows:
            item = QListWidgetItem()
            item.setData(ROW_ROLE, row)
            spoken = f"{row.path}: {wrong_text(row)}. Right would be: {row.right}"
            item.setData(Qt.ItemDataRole.AccessibleTextRole, spoken)
            item.setToolTip(plain_tip(f"{wrong_text(row)}\n{right_text(row)}"))
            self.list.addItem(item)
