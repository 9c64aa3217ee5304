"""Messages below a field: its problems, each with a change that solves it, and notes."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from torchdeck.config.problems import Problem, shown
from torchdeck.config.remedies import Remedy
from torchdeck_app.launch.form.form_edits import NamedEdit
from torchdeck_app.launch.form.form_state import FieldState
from torchdeck_app.widgets.labels import control_text, plain_tip
from torchdeck_app.widgets.panel import GRID, label

_WIDEST = 16
"""Maximum characters of a value on a button."""


class FieldMessages(QWidget):
    """Column of messages; without any it has no height."""

    asked = Signal(object)
    """Emitted with the NamedEdit of a button."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._labels: list[QLabel] = []
        self._rows: list[QWidget] = []
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(2)
        self.buttons: list[QPushButton] = []

    def texts(self) -> list[str]:
        """Return what is shown."""
        return [message.text() for message in self._labels]

    def show_state(self, state: FieldState | None, refusal: str, *, writable: bool) -> None:
        """Show the problems and notes of a field.

        Args:
            state: state of the field.
            refusal: why its input cannot be written; empty if it can.
            writable: whether its text can be changed.
        """
        while self._rows:
            self._rows.pop().deleteLater()
        self._labels, self.buttons = [], []
        if refusal:
            self._add(f"✕ {refusal}", "error")
        if state is not None:
            remedies = dict(state.remedies)
            for problem in () if state.entries else state.problems:
                remedy = remedies.get(problem) if writable else None
                own = remedy is not None and remedy.path == state.path and remedy.value is not None
                self._add(sentence(problem, "✕"), "error", remedy, own=own)
            if state.note and not state.problems:
                self._add(f"⚠ {state.note}", "warning")
            if state.inherited and not state.own:
                self._add("from the file that this one extends", "secondary")
        self._column.setContentsMargins(0, 0, 0, 4 if self._labels else 0)
        self.setVisible(bool(self._labels))

    def _add(self, text: str, role: str, remedy: Remedy | None = None, *, own: bool = False) -> None:
        message = label(text, role=role, wrap=True)
        message.setTextFormat(Qt.TextFormat.PlainText)
        message.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        self._labels.append(message)
        row = QWidget()
        line = QHBoxLayout(row)
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(GRID)
        line.addWidget(message, 1)
        if remedy is not None:
            line.addWidget(self._button(remedy, own=own), 0, Qt.AlignmentFlag.AlignTop)
        self._rows.append(row)
        self._column.addWidget(row)

    def _button(self, remedy: Remedy, *, own: bool) -> QPushButton:
        """Return the button of a change; `own`: of this field's value."""
        text = f"Use {shown(remedy.value, _WIDEST)}" if own else remedy.label
        button = QPushButton(control_text(text))
        button.setAccessibleName(remedy.label)
        button.setToolTip(plain_tip(remedy.label))
        button.clicked.connect(lambda: self.asked.emit(NamedEdit(remedy.label, remedy.apply)))
        self.buttons.append(button)
        return button


def sentence(problem: Problem, sign: str) -> str:
    """Return the problem and the expected value."""
    wrong = problem.wrong[:1].upper() + problem.wrong[1:]
    return f"{sign} {wrong}. Expected: {problem.right}"
