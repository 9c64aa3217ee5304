"""Dialog for the values of a run's secrets, which no environment variable has."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLineEdit,
    QVBoxLayout,
    QWidget,
)

from torchdeck.use_cases.start import MissingSecrets
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.widgets.panel import GRID, label

_MEANS = "They are passed to the run and written to no file. They are kept until this window is closed."
_REMEMBERED = "They are passed to the run, and kept in the system's keyring for later starts."


class SecretsDialog(QDialog):
    """Password field for each secret; all must have a value."""

    def __init__(
        self,
        missing: MissingSecrets,
        entered: Callable[[dict[str, str], bool], None],
        declined: Callable[[], None],
        parent: QWidget | None = None,
        *,
        resumes: bool = False,
    ) -> None:
        """Args:
        missing: the secrets.
        entered: called with their values, and whether the keyring is to keep them.
        declined: called if the dialog is cancelled.
        parent: Qt parent.
        resumes: they are for a resume, not for a launch.
        """
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Secrets of the run")
        self.lines: dict[str, QLineEdit] = {}
        rows = QFormLayout()
        rows.setSpacing(GRID)
        for name in missing.names:
            rows.addRow(self._name(name), self._line(name))
        self.remember = QCheckBox("Re&member in the keyring")
        self.remember.setToolTip("Later starts take them from there, from the command line too")
        self.remember.setVisible(missing.can_keep)
        self.note = label(_MEANS, Type.SMALL, "secondary", wrap=True)
        self.remember.toggled.connect(lambda on: self.note.setText(_REMEMBERED if on else _MEANS))
        self.buttons = QDialogButtonBox()
        self.launch_button = self.buttons.addButton(
            "&Resume" if resumes else "&Launch", QDialogButtonBox.ButtonRole.AcceptRole
        )
        cancel = self.buttons.addButton("&Cancel", QDialogButtonBox.ButtonRole.RejectRole)
        self.launch_button.setToolTip(f"{'Resume' if resumes else 'Start'} the run with these values")
        cancel.setToolTip("Resume nothing" if resumes else "Start nothing")
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        self.accepted.connect(lambda: entered(self.values(), self.remember.isChecked()))
        self.rejected.connect(declined)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(2 * GRID)
        one = len(missing.names) == 1
        heading = "This run needs a secret" if one else f"This run needs {len(missing.names)} secrets"
        column.addWidget(label(heading, Type.HEADING, wrap=True))
        column.addWidget(label("No environment variable of this window has their values.", wrap=True))
        column.addLayout(rows)
        column.addWidget(self.remember)
        column.addWidget(self.note)
        column.addWidget(self.buttons)
        self.setMinimumWidth(52 * GRID)
        self._typed()

    def values(self) -> dict[str, str]:
        """Return the values by name."""
        return {name: line.text() for name, line in self.lines.items()}

    def _name(self, name: str) -> QWidget:
        shown = label(name)
        shown.setFont(font(Type.MONO))
        return shown

    def _line(self, name: str) -> QLineEdit:
        line = QLineEdit()
        line.setEchoMode(QLineEdit.EchoMode.Password)
        line.setAccessibleName(name)
        line.setToolTip(f"Value of {name}")
        line.setInputMethodHints(Qt.InputMethodHint.ImhSensitiveData | Qt.InputMethodHint.ImhNoPredictiveText)
        line.textChanged.connect(self._typed)
        self.lines[name] = line
        return line

    def _typed(self) -> None:
        self.launch_button.setEnabled(all(self.values().values()))
