"""The list of what may be typed at the cursor, with a line of help to each."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QAbstractItemView, QFrame, QTreeWidget, QTreeWidgetItem, QWidget

from torchdeck_app.launch.text.suggestions import Suggestion
from torchdeck_app.theme.fonts import Type, font

_ROWS = 10
_TAKING = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Tab)
_MOVING = (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown)


class CompletionPopup(QTreeWidget):
    """Lies over the text area, which keeps the focus: typing goes on."""

    chosen = Signal(object)
    """A Suggestion."""

    def __init__(self, area: QWidget) -> None:
        super().__init__(area)
        self._area = area
        self._offered: list[Suggestion] = []
        self.setAccessibleName("Completions")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self.setColumnCount(2)
        self.setHeaderHidden(True)
        self.setRootIsDecorated(False)
        self.setUniformRowHeights(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFont(font(Type.SMALL))
        self.itemClicked.connect(lambda _item: self.take())
        area.installEventFilter(self)
        self.hide()

    def offer(self, offered: list[Suggestion], at: QPoint, below: int) -> None:
        """Show these `below` pixels under `at`, a point of the area; above it where there is no room."""
        self._offered = offered
        self.clear()
        for item in offered:
            row = QTreeWidgetItem([item.label, item.help])
            row.setFont(0, font(Type.MONO))
            row.setToolTip(1, item.help)
            self.addTopLevelItem(row)
        first = self.topLevelItem(0)
        if first is None:
            self.hide()
            return
        self.setCurrentItem(first)
        self._place(at, below)
        self.show()
        self.raise_()

    def take(self) -> None:
        """The current one is meant."""
        index = self.currentIndex().row()
        self.hide()
        if 0 <= index < len(self._offered):
            self.chosen.emit(self._offered[index])

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if not self.isVisible() or watched is not self._area:
            return False
        if event.type() == QEvent.Type.FocusOut:
            self.hide()
        elif event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            return self._pressed(event)
        return False

    def _pressed(self, event: QKeyEvent) -> bool:
        if event.key() in _TAKING:
            self.take()
        elif event.key() == Qt.Key.Key_Escape:
            self.hide()
        elif event.key() in _MOVING:
            self.keyPressEvent(event)
        else:
            return False
        return True

    def _place(self, at: QPoint, below: int) -> None:
        self.resizeColumnToContents(0)
        width = min(self._area.width() - 16, 520)
        height = min(_ROWS, len(self._offered)) * self.sizeHintForRow(0) + 2 * self.frameWidth() + 4
        x = max(8, min(at.x(), self._area.width() - width - 8))
        fits = at.y() + below + height <= self._area.height()
        y = at.y() + below if fits else max(0, at.y() - height)
        self.setGeometry(x, y, width, height)
