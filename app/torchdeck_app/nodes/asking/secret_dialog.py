"""Asks for a password or a passphrase."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QDialog, QDialogButtonBox, QLineEdit, QVBoxLayout, QWidget

from torchdeck_app.theme.fonts import Type
from torchdeck_app.widgets.panel import GRID, label

_KEPT = "It is kept in memory until this window is closed, and written nowhere."
_REMEMBERED = "It is kept in memory, and in the system's keyring for the next time."


class SecretDialog(QDialog):
    """What is typed is not shown. Canceled, it is done without."""

    def __init__(
        self, title: str, what: str, *, again: bool, can_remember: bool, parent: QWidget | None = None
    ) -> None:
        """
        Args:
            title: what is asked for.
            what: whose it is.
            again: the last answer was wrong.
            can_remember: there is a keyring that could keep it.
            parent: Qt's owner.
        """
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(title)
        self.line = QLineEdit()
        self.line.setEchoMode(QLineEdit.EchoMode.Password)
        self.line.setAccessibleName(title)
        self.line.setAccessibleDescription(what)
        self.line.setInputMethodHints(
            Qt.InputMethodHint.ImhSensitiveData | Qt.InputMethodHint.ImhNoPredictiveText
        )
        self.line.textChanged.connect(self._typed)
        self.remember = QCheckBox("&Remember in the keyring")
        self.remember.setToolTip(
            "The system's keyring keeps it; `torchdeck nodes trust --keyring forget` takes it out"
        )
        self.remember.setVisible(can_remember)
        self.buttons = QDialogButtonBox(
            QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel
        )
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(GRID)
        column.addWidget(label(title, Type.HEADING, wrap=True))
        column.addWidget(label(what, role="secondary", wrap=True))
        if again:
            column.addWidget(label("✕ That was wrong. Try again.", role="error", wrap=True))
        column.addWidget(self.line)
        column.addWidget(self.remember)
        self.kept = label(_KEPT, Type.SMALL, "secondary", wrap=True)
        self.remember.toggled.connect(lambda on: self.kept.setText(_REMEMBERED if on else _KEPT))
        column.addWidget(self.kept)
        column.addWidget(self.buttons)
        self.setMinimumWidth(52 * GRID)
        self._typed("")

    @property
    def secret(self) -> str:
        """What was typed."""
        return self.line.text()

    def _typed(self, text: str) -> None:
        self.buttons.button(QDialogButtonBox.StandardButton.Ok).setEnabled(bool(text))
