"""Help for the focused field on a strip of constant height."""

from __future__ import annotations

import textwrap

from PySide6.QtCore import Qt
from PySide6.QtGui import QPalette, QResizeEvent, QTextLayout
from PySide6.QtWidgets import QFrame, QLabel, QVBoxLayout, QWidget

from torchdeck.config.keys import Key
from torchdeck_app.theme.fonts import Type
from torchdeck_app.widgets.panel import GRID, label

_LINES = 2
_TOOLTIP = 80


class HelpStrip(QFrame):
    """Strip with the key's name as in the file, and its help; the tooltip has all of it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._whole = ""
        self.name = label(kind=Type.MONO)
        self.text: QLabel = label(role="secondary", wrap=True)
        self.text.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self.text.setFixedHeight(_LINES * self.text.fontMetrics().lineSpacing())
        for shown in (self.name, self.text):
            shown.setTextFormat(Qt.TextFormat.PlainText)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        line = QWidget()
        line.setFixedHeight(1)
        line.setAutoFillBackground(True)
        line.setBackgroundRole(QPalette.ColorRole.Mid)
        column.addWidget(line)
        for shown in (self.name, self.text):
            shown.setContentsMargins(2 * GRID, 0, 2 * GRID, 0)
            column.addWidget(shown)
        column.addSpacing(4)
        self.clear()

    def show_key(self, key: Key) -> None:
        """Explain `key`."""
        self.name.setText(key.name)
        self._show(f"{key.description} Expected: {key.expected}.")

    def clear(self) -> None:
        """Show the placeholder."""
        self.name.setText(" ")
        self._show("Click a setting to see what it does.")

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self._fit()

    def _show(self, text: str) -> None:
        self._whole = text
        self.text.setToolTip("\n".join(textwrap.wrap(text, _TOOLTIP)))
        self._fit()

    def _fit(self) -> None:
        """Fit the text to its lines, the last one with an ellipsis."""
        width = self.width() - 4 * GRID
        layout = QTextLayout(self._whole, self.text.font())
        layout.beginLayout()
        starts: list[int] = []
        line = layout.createLine()
        while line.isValid():
            line.setLineWidth(width)
            starts.append(line.textStart())
            line = layout.createLine()
        layout.endLayout()
        text = self._whole
        if len(starts) > _LINES:
            at = starts[_LINES - 1]
            elided = self.text.fontMetrics().elidedText(text[at:], Qt.TextElideMode.ElideRight, width)
            text = text[:at] + elided
        self.text.setText(text)
