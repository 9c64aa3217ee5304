"""Line controls for numbers, text, sizes and short lists."""

from __future__ import annotations

import re

from PySide6.QtWidgets import QHBoxLayout, QWidget

from torchdeck.config.keys import Key
from torchdeck_app.launch.form.codecs import Codec, UnreadableError, codec_of
from torchdeck_app.launch.form.controls.control import Control
from torchdeck_app.launch.form.controls.value_line import ValueLine
from torchdeck_app.launch.form.states import FieldState

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
