"""A text that is shown as it is: never as HTML, and without characters that mislead."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget

from torchdeck.shown_text import shown


class PlainLabel(QLabel):
    """Qt's label takes what looks like HTML for HTML, so that a run's name could show a picture or a link."""

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setText(text)

    def setText(self, text: str) -> None:  # noqa: N802 - Qt's name
        """Say `text` from now on."""
        super().setText(shown(text))


def control_text(text: str) -> str:
    """`text` as a button, menu or tab shows it as it is: an ampersand in it is no mnemonic."""
    return shown(text).replace("&", "&&")
