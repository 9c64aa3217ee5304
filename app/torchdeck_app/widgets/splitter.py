"""Splitter whose divider can be moved by keys, too."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QApplication, QSplitter, QSplitterHandle, QWidget

from torchdeck_app.widgets.panel import GRID

_STEP = 2 * GRID
"""Pixels per press of an arrow key."""


class Splitter(QSplitter):
    """Splitter with dividers that take the focus; arrow keys move them, Home and End to the ends."""

    def __init__(
        self,
        name: str,
        orientation: Qt.Orientation = Qt.Orientation.Horizontal,
        parent: QWidget | None = None,
    ) -> None:
        """Create it empty; `name` says what its divider changes, such as `Width of the list`."""
        super().__init__(orientation, parent)
        self.setChildrenCollapsible(False)
        self._name = name

    def createHandle(self) -> QSplitterHandle:  # noqa: N802 - Qt's name
        return _Divider(self.orientation(), self, self._name)


class _Divider(QSplitterHandle):
    def __init__(self, orientation: Qt.Orientation, splitter: Splitter, name: str) -> None:
        super().__init__(orientation, splitter)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName(name)
        self.setAccessibleDescription("Arrow keys move this divider, Home and End to its ends")

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        position = self._moved(Qt.Key(event.key()))
        if position is None:
            super().keyPressEvent(event)
        else:
            self.moveSplitter(position)

    def _moved(self, key: Qt.Key) -> int | None:
        """Return the position that `key` leads to, in pixels of the splitter."""
        wide = self.orientation() is Qt.Orientation.Horizontal
        here = self.x() if wide else self.y()
        splitter = self.splitter()
        back, on = (Qt.Key.Key_Left, Qt.Key.Key_Right) if wide else (Qt.Key.Key_Up, Qt.Key.Key_Down)
        steps = {
            back: here - _STEP,
            on: here + _STEP,
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: splitter.width() if wide else splitter.height(),
        }
        return steps.get(key)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        super().paintEvent(event)
        if self.hasFocus():
            painter = QPainter(self)
            painter.fillRect(self.rect(), QApplication.palette().highlight())
            painter.end()
