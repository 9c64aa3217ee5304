"""Number with its caption below."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from torchdeck_app.theme.fonts import Type
from torchdeck_app.widgets.panel import label


class Figure(QWidget):
    """Number over its caption."""

    def __init__(self, caption: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.number: QLabel = label("–", Type.HEADING)
        self.caption: QLabel = label(caption, Type.SMALL, "secondary")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        for text in (self.number, self.caption):
            text.setTextFormat(Qt.TextFormat.PlainText)
            layout.addWidget(text)

    def show_number(self, text: str, caption: str, exact: str = "") -> None:
        """Show the number; `exact` is the tooltip."""
        self.number.setText(text)
        self.caption.setText(caption)
        self.setToolTip(exact)
        self.setAccessibleName(f"{caption}: {text}")
