"""Labels and tooltips: plain text, never HTML; elided, wrapped, or updated without a relayout."""

from __future__ import annotations

from math import ceil

from PySide6.QtCore import QRect, QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent, QResizeEvent, QTextOption
from PySide6.QtWidgets import QFrame, QLabel, QPlainTextEdit, QSizePolicy, QWidget

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
        painter.end()

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


# Plain text labels: never HTML, and without misleading characters.


class PlainLabel(QLabel):
    """Label for plain text; QLabel detects HTML, so that a run's name could show a picture or a link."""

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setText(text)

    def setText(self, text: str) -> None:  # noqa: N802 - Qt's name
        """Show `text` from now on."""
        super().setText(shown(text))


def control_text(text: str) -> str:
    """Return `text` for a button, menu or tab: an ampersand in it is not a mnemonic."""
    return shown(text).replace("&", "&&")


class ElidedLabel(PlainLabel):
    """Label that adapts to the width it gets."""

    pressed = Signal()

    def minimumSizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(0, super().minimumSizeHint().height())

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        painter = QPainter(self)
        area = self.contentsRect()
        text = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, area.width())
        self.style().drawItemText(
            painter,
            area,
            int(self.alignment()),
            self.palette(),
            self.isEnabled(),
            text,
            self.foregroundRole(),
        )
        painter.end()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        if event.button() is Qt.MouseButton.LeftButton and self.rect().contains(event.position().toPoint()):
            self.pressed.emit()


class WrappedText(QPlainTextEdit):
    """Text as high as its lines; `role` is that of a label."""

    def __init__(self, role: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setReadOnly(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        for policy in (self.setHorizontalScrollBarPolicy, self.setVerticalScrollBarPolicy):
            policy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.document().setDocumentMargin(0)
        self.viewport().setAutoFillBackground(False)
        self.setProperty("role", role)

    def text(self) -> str:
        """Return the text."""
        return self.toPlainText()

    def set_text(self, text: str, role: str) -> None:
        """Change the text, in the colour of `role`."""
        text = shown(text)
        if text != self.text():
            self.setPlainText(text)
            self.setAccessibleName(text)
        if role != self.property("role"):
            self.setProperty("role", role)
            self.style().unpolish(self)
            self.style().polish(self)
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self._fit()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(super().sizeHint().width(), self._height())

    def _fit(self) -> None:
        if self.height() != self._height():
            self.setFixedHeight(self._height())

    def _height(self) -> int:
        lines = sum(max(1, self._lines_of(at)) for at in range(self.blockCount()))
        return ceil(lines * self.fontMetrics().lineSpacing())

    def _lines_of(self, at: int) -> int:
        block = self.document().findBlockByNumber(at)
        self.blockBoundingRect(block)  # lays it out
        return block.layout().lineCount()


def plain_tip(text: str) -> str:
    """Return a tooltip that shows `text` literally; none for an empty text."""
    from html import escape  # not needed for the first paint

    return f"<qt>{escape(shown(text))}</qt>".replace("\n", "<br>") if text else ""
