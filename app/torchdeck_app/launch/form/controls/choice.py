"""Controls for a value from a list of words, or from a list with free input."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QWidget

from torchdeck_app.launch.form.codecs import codec_of
from torchdeck_app.launch.form.controls.control import Control
from torchdeck_app.launch.form.controls.line import LineControl, default_words
from torchdeck_app.launch.form.controls.value_line import ValueLine
from torchdeck_app.launch.form.kinds import words_of
from torchdeck_app.launch.form.states import FieldState

_LEAST = 100
"""Minimum width in pixels: no more than the field column, or the row would move it."""


class QuietBox(QComboBox):
    """Combo box whose value the wheel changes only with focus; otherwise the wheel scrolls its container."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(6)
        self.setMinimumWidth(_LEAST)

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802 - Qt's name
        line = self.lineEdit()
        if self.hasFocus() or (line is not None and line.hasFocus()):
            super().wheelEvent(event)
        else:
            event.ignore()


class ChoiceControl(Control):
    """Control for the schema's choices; it also shows invalid values."""

    def __init__(self, state: FieldState, parent: QWidget | None = None) -> None:
        super().__init__(state, parent)
        self.box = QuietBox()
        self.box.setAccessibleName(state.key.name)
        self.box.activated.connect(self._choose)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.box, 1)
        self.setFocusProxy(self.box)
        self._values: list[object] = []
        self.show_state(state)

    def show_state(self, state: FieldState) -> None:
        super().show_state(state)
        key = state.key
        values: list[object] = list(key.choices) if key.choices else [True, False]
        if key.default is None:
            values.insert(0, None)
        chosen = next((i for i, value in enumerate(values) if _is(value, state.value)), len(values))
        if chosen == len(values):  # an invalid value, which is shown all the same
            values.append(state.value)
        if values != self._values:
            self._values = values
            self.box.clear()
            self.box.addItems([self._word(value) for value in values])
        self.box.setCurrentIndex(chosen)

    def _word(self, value: object) -> str:
        codec = codec_of(self.state.key)
        if value is None:
            return default_words(self.state.key, codec) or "not set"
        return codec.show(value)

    def _choose(self, index: int) -> None:
        value = self._values[index]
        if value is None:
            self.ask_reset()
        elif not _is(value, self.state.value):
            self.ask_value(value)


class WordControl(LineControl):
    """Line with words to choose from."""

    def _make_line(self) -> ValueLine:
        line = ValueLine()
        self.box = QuietBox()
        self.box.setEditable(True)
        self.box.setAccessibleName(self.state.key.name)
        self.box.setLineEdit(line)
        self.box.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self.box.setCompleter(None)  # type: ignore[arg-type]  # none: a word is not finished behind one's back
        self.box.addItems(words_of(self.state.key))
        self.box.setCurrentIndex(-1)
        self.box.activated.connect(lambda index: self._enter(self.box.itemText(index)))
        return line

    def _holder(self) -> QWidget:
        return self.box

    def set_writable(self, *, writable: bool) -> None:
        self.box.setEnabled(writable)


def _is(one: object, other: object) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)
