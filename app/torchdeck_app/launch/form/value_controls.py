"""Controls for numbers, text, sizes, short lists, and a choice of words."""

from __future__ import annotations

import re

from PySide6.QtCore import Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QWidget

from torchdeck.config.keys import Key
from torchdeck_app.launch.form.base_control import Control, ValueLine
from torchdeck_app.launch.form.codecs import Codec, UnreadableError, codec_of
from torchdeck_app.launch.form.form_state import FieldState, words_of
from torchdeck_app.widgets.inputs import NamedBox

_DEFAULT = re.compile(r"Default: (.+?)(?:[.;:]\s|\.?$)")


class LineControl(Control):
    """Line that commits its input on Enter or when it loses focus; empty input means the default."""

    def __init__(self, state: FieldState, parent: QWidget | None = None) -> None:
        super().__init__(state, parent)
        self._codec = codec_of(state.key)
        self.line = self._make_line()
        self.line.setAccessibleName(state.key.name)
        self.line.entered.connect(self._enter)
        self.line.given_up.connect(lambda: self.refused.emit(""))
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(4)
        self._row.addWidget(self._holder(), 1)
        self.setFocusProxy(self._holder())
        self.show_state(state)

    def _make_line(self) -> ValueLine:
        return ValueLine()

    def _holder(self) -> QWidget:
        """Return the widget in the row."""
        return self.line

    def show_state(self, state: FieldState) -> None:
        super().show_state(state)
        self.line.setPlaceholderText(placeholder(state, self._codec))
        self.line.show_text(text_of(state, self._codec))

    def set_writable(self, *, writable: bool) -> None:
        self.line.setReadOnly(not writable)

    def _enter(self, text: str) -> None:
        if not text.strip():
            self.ask_reset()
            return
        try:
            typed = self._codec.read(text)
        except UnreadableError as error:
            self.line.refuse()
            self.refused.emit(str(error))
            return
        self.ask_value(typed.value, typed.literal)


def text_of(state: FieldState, codec: Codec) -> str:
    """Return the text of a line: empty for a default, which is its placeholder."""
    if not state.own:
        return ""
    number = isinstance(state.value, (int, float)) and not isinstance(state.value, bool)
    return state.literal if number and state.literal else codec.show(state.value)


def placeholder(state: FieldState, codec: Codec) -> str:
    """Return the placeholder, which is the default."""
    return default_words(state.key, codec) if not state.inherited else codec.show(state.value)


def default_words(key: Key, codec: Codec) -> str:
    """Return the default, or the meaning of its absence."""
    said = _DEFAULT.search(key.description)
    number = isinstance(key.default, (int, float))
    if key.default is not None and (said is None or number):
        return codec.show(key.default) if key.default != [] else "none"
    return said.group(1) if said is not None else ""


# Controls for a value from a list of words, or from a list with free input.

_LEAST = 100
"""Minimum width in pixels: no more than the field column, or the row would move it."""


class QuietBox(NamedBox):
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
