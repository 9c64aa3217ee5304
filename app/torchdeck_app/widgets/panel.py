"""Panel: a heading over content, on a background of its own."""

from __future__ import annotations

from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.widgets.plain_label import PlainLabel

GRID = 8
"""Layout unit in pixels; inside controls half of it is used."""


def label(text: str = "", kind: Type = Type.BODY, role: str = "", *, wrap: bool = False) -> QLabel:
    """Create a label with plain text, never HTML; `role` is `secondary`, `error`, `warning` or empty."""
    made = PlainLabel(text)
    made.setFont(font(kind))
    made.setWordWrap(wrap)
    if role:
        made.setProperty("role", role)
    return made


class Panel(QFrame):
    """Framed part of a page."""

    def __init__(self, title: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "panel")
        if title:
            self.setAccessibleName(title)
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(2 * GRID, GRID + 4, 2 * GRID, GRID + 4)
        self._layout.setSpacing(GRID)
        self.header = QHBoxLayout()
        """Beside the title, for what belongs to the whole panel."""
        if title:
            self.header.addWidget(label(title, Type.HEADING))
            self.header.addStretch(1)
            self._layout.addLayout(self.header)

    def add(self, widget: QWidget, stretch: int = 0) -> None:
        """Append `widget` at the bottom."""
        self._layout.addWidget(widget, stretch)
