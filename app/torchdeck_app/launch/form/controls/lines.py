"""A list of texts, each on a line of its own, with a button to add and one beside each to remove."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from torchdeck_app.launch.form.controls.control import Control
from torchdeck_app.launch.form.controls.small_button import SmallButton
from torchdeck_app.launch.form.controls.value_line import ValueLine
from torchdeck_app.launch.form.states import FieldState
from torchdeck_app.theme.theme import Theme


class LinesControl(Control):
    """An empty line is taken out when it is left."""

    def __init__(self, theme: Theme, state: FieldState, parent: QWidget | None = None) -> None:
        super().__init__(state, parent)
        self._theme = theme
        self.lines: list[ValueLine] = []
        self._rows: list[QWidget] = []
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(4)
        self.add = QPushButton("Add")
        self.add.setAccessibleName(f"add to {state.key.name}")
        self.add.setToolTip("Add a line")
        self.add.clicked.connect(self._begin)
        self._column.addWidget(self.add, alignment=Qt.AlignmentFlag.AlignLeft)
        self.show_state(state)

    def show_state(self, state: FieldState) -> None:
        super().show_state(state)
        items = list(state.value or [])
        beginning = len(self.lines) > len(items) and not self.lines[-1].text() and self.lines[-1].hasFocus()
        self._resize(len(items) + beginning)
        for line, item in zip(self.lines, items, strict=False):
            line.show_text(item)

    def set_writable(self, *, writable: bool) -> None:
        self.add.setEnabled(writable)
        for row in self._rows:
            row.setEnabled(writable)

    def _resize(self, count: int) -> None:
        while len(self.lines) > count:
            self.lines.pop()
            self._rows.pop().deleteLater()
        while len(self.lines) < count:
            self._append()

    def _append(self) -> None:
        index = len(self.lines)
        row, line = QWidget(), ValueLine()
        line.setAccessibleName(f"{self.state.key.name}[{index}]")
        line.entered.connect(lambda text: self._enter(index, text))
        remove = SmallButton(self._theme, "close", f"Remove line {index + 1}")
        remove.clicked.connect(lambda: self._enter(index, ""))
        layout = QHBoxLayout(row)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(line, 1)
        layout.addWidget(remove)
        self._column.insertWidget(index, row)
        self.lines.append(line)
        self._rows.append(row)

    def _begin(self) -> None:
        self._append()
        self.lines[-1].setFocus()

    def _enter(self, index: int, text: str) -> None:
        items = list(self.state.value or [])
        if index < len(items):
            items[index : index + 1] = [text] if text else []
        elif text:
            items.append(text)
        if items != list(self.state.value or []):
            self.ask_value(items)
        elif not text:
            self._resize(len(items))
