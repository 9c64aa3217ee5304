"""Label whose text changes every second without a relayout unless its size changes."""

from __future__ import annotations

from PySide6.QtCore import QRect, QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from torchdeck.shown_text import shown

_HIGHEST = 100_000
"""Pixels; higher than any text."""


class SteadyLabel(QLabel):
    """Label with plain text in as many lines as needed.

    QLabel requests a layout of everything around it, up to the window, on every change. This one does so only
    if its height at the current width changes.
    """

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._text = ""
        self._needed = self.fontMetrics().height()
        """Pixels that the text is high at the width it has, as the layout was last told."""
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setText(text)

    def text(self) -> str:
        """Return the text; screen readers get it as the label's name."""
        return self._text

    def setText(self, text: str) -> None:  # noqa: N802 - Qt's name
        """Show `text` from now on."""
        text = shown(text)
        if text == self._text:
            return
        self._text = text
        self.setAccessibleName(text)
        self.update()
        self._ask_for_height()

    def hasHeightForWidth(self) -> bool:  # noqa: N802 - Qt's name
        return True

    def heightForWidth(self, width: int) -> int:  # noqa: N802 - Qt's name
        return max(self.fontMetrics().height(), self._bounds(width).height())

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(self._bounds(_HIGHEST).width(), self._needed)

    def minimumSizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(0, self._needed)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self._ask_for_height()

    def _ask_for_height(self) -> None:
        needed = self.heightForWidth(self.width())
        if needed != self._needed:
            self._needed = needed
            self.updateGeometry()

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        painter = QPainter(self)
        self.style().drawItemText(
            painter,
            self.contentsRect(),
            self._flags,
            self.palette(),
            self.isEnabled(),
            self._shown,
            self.foregroundRole(),
        )

    @property
    def _shown(self) -> str:
        return self._text

    @property
    def _flags(self) -> int:
        return int(self.alignment()) | int(Qt.TextFlag.TextWordWrap)

    def _bounds(self, width: int) -> QRect:
        return self.fontMetrics().boundingRect(QRect(0, 0, width, _HIGHEST), self._flags, self._text)


class SteadyLine(SteadyLabel):
    """One-line label, elided if there is no room: no text triggers a relayout."""

    pressed = Signal()

    def heightForWidth(self, _width: int) -> int:  # noqa: N802 - Qt's name
        return self.fontMetrics().height()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        if event.button() is Qt.MouseButton.LeftButton and self.rect().contains(event.position().toPoint()):
            self.pressed.emit()

    @property
    def _shown(self) -> str:
        width = self.contentsRect().width()
        return self.fontMetrics().elidedText(self._text, Qt.TextElideMode.ElideRight, width)

    @property
    def _flags(self) -> int:
        return int(self.alignment()) | int(Qt.TextFlag.TextSingleLine)
