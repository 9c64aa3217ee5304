"""Dialog with an error report of the window itself."""

from __future__ import annotations

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QPlainTextEdit, QVBoxLayout, QWidget

from torchdeck.shown_text import shown
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.widgets.dialogs import begin_with
from torchdeck_app.widgets.panel import GRID, label


class ErrorDialog(QDialog):
    """Non-modal dialog: the window stays usable."""

    def __init__(self, summary: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Error in Torchdeck")
        begin_with(self, 80 * GRID, 50 * GRID)
        heading = label(summary[:300], Type.HEADING, wrap=True)
        self._text = QPlainTextEdit()
        self._text.setReadOnly(True)
        self._text.setFont(font(Type.MONO))
        self._text.setAccessibleName("Traceback")
        self._text.setTabChangesFocus(True)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        copy = buttons.addButton("&Copy", QDialogButtonBox.ButtonRole.ActionRole)
        copy.setToolTip("Copy the report, to send it to the developers")
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self._text.toPlainText()))
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(GRID)
        column.addWidget(heading)
        said = "Something went wrong in the app. Your runs are not affected."
        column.addWidget(label(said, role="secondary", wrap=True))
        column.addWidget(self._text, 1)
        column.addWidget(buttons)

    def show_report(self, text: str) -> None:
        """Show all errors so far."""
        self._text.setPlainText(shown(text))
