"""Plain text labels: never HTML, and without misleading characters."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget

from torchdeck.shown_text import shown


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
