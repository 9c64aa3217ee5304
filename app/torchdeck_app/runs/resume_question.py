"""Question for the arguments with which a script continues from its checkpoint."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QDialog, QDialogButtonBox, QLineEdit, QVBoxLayout, QWidget

from torchdeck.shown_text import shown
from torchdeck_app.widgets.dialogs import begin_with
from torchdeck_app.widgets.panel import label

_SIZE = 560, 200


class ResumeQuestion(QDialog):
    """Asked once: the answer may be kept in the run file."""

    def __init__(
        self, program: str, answered: Callable[[list[str], bool], None], parent: QWidget | None = None
    ) -> None:
        """Ask; `answered` is called with the arguments, and whether to keep them."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Resume")
        self._answered = answered
        self.arguments = QLineEdit()
        self.arguments.setPlaceholderText("--resume @{checkpoint}")
        self.arguments.setAccessibleName("Arguments to resume with")
        self.arguments.textChanged.connect(self._check)
        self.keep = QCheckBox("Keep them in the run file, for its restarts and next runs")
        self.keep.setChecked(True)
        self.problem = label("", role="secondary", wrap=True)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.resume = buttons.addButton("Resume", QDialogButtonBox.ButtonRole.AcceptRole)
        buttons.accepted.connect(self._accept)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.addWidget(label(shown(f"How does {program} continue from its checkpoint?"), wrap=True))
        told = "Enter the arguments to add to its own. @{checkpoint} stands for the newest checkpoint's path."
        column.addWidget(label(told, role="secondary", wrap=True))
        for widget in (self.arguments, self.keep, self.problem, buttons):
            column.addWidget(widget)
        begin_with(self, *_SIZE)
        self._check()

    def _words(self) -> list[str] | None:
        try:
            return shlex.split(self.arguments.text())
        except ValueError:
            return None

    def _check(self) -> None:
        words = self._words()
        self.problem.setText("A quotation mark is not closed." if words is None else "")
        self.resume.setEnabled(bool(words))

    def _accept(self) -> None:
        words = self._words()
        if words:
            self._answered(words, self.keep.isChecked())
            self.accept()
