"""Text that also wraps within words and is copied unchanged: for paths, fingerprints and commands."""

from __future__ import annotations

from math import ceil

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent, QTextOption
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QSizePolicy, QWidget

from torchdeck.shown_text import shown


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
