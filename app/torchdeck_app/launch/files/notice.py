"""Notice above the document: a message with buttons for the possible answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QSizePolicy, QToolButton, QVBoxLayout, QWidget

from torchdeck_app.theme.icons import drawn, icon
from torchdeck_app.theme.palette import ColourName
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.announcements import announce
from torchdeck_app.widgets.inputs import leave
from torchdeck_app.widgets.panel import GRID, label

Tone = Literal["note", "done", "warning", "error"]
_SIGNS: dict[Tone, tuple[str, ColourName]] = {
    "note": ("note", "secondary"),
    "done": ("check", "good"),
    "warning": ("warning", "warn"),
    "error": ("close", "bad"),
}
"""Icon and colour. A check mark is for completed actions or checks, not for plain messages."""
_SIGN = 20
"""Size of the icon in pixels: the height of an adjacent line of text."""


class Answer(NamedTuple):
    """Button of the notice."""

    text: str
    pressed: Callable[[], None]


class Notice(QFrame):
    """Notice with one message at a time; a new one replaces it."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._tone: Tone = "note"
        self.topic = ""
        """Subject of the notice, by which it can be withdrawn."""
        self.icon_name = ""
        """The sign of its tone."""
        self.setProperty("role", "panel")
        self.sign = label()
        self.text = label(wrap=True)
        self.text.setTextFormat(Qt.TextFormat.PlainText)
        self.text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.text.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._buttons: list[QPushButton] = []
        self._answers = QHBoxLayout()
        self._answers.setSpacing(GRID)
        self._answers.addStretch(1)
        self.close_button = QToolButton()
        self.close_button.setAccessibleName("Close this message")
        self.close_button.setToolTip("Close this message")
        self.close_button.clicked.connect(self._close)
        row = QHBoxLayout()
        row.setSpacing(GRID)
        for widget, stretch in ((self.sign, 0), (self.text, 1), (self.close_button, 0)):
            row.addWidget(widget, stretch, Qt.AlignmentFlag.AlignTop)
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID, 4, 4, 4)
        column.setSpacing(4)
        column.addLayout(row)
        column.addLayout(self._answers)
        theme.changed.connect(self._draw)
        self.hide()

    def say(self, text: str, tone: Tone = "note", answers: Sequence[Answer] = (), *, topic: str = "") -> None:
        """Show a message with its answers."""
        self._tone, self.topic = tone, topic
        self.text.setText(text)
        self.setAccessibleName(text)
        for old in self._buttons:
            self._answers.removeWidget(old)
            old.hide()
            old.deleteLater()
        self._buttons = []
        for answer in answers:
            button = QPushButton(answer.text)
            button.setAccessibleName(answer.text.replace("&", ""))
            button.clicked.connect(lambda _checked=False, do=answer.pressed: do())
            self._answers.addWidget(button)
            self._buttons.append(button)
        self._draw()
        self.show()
        announce(self, text, urgent=tone == "error")

    def clear(self, topic: str | None = None) -> None:
        """Remove the message; with a topic, only if it belongs to it."""
        if topic is None or topic == self.topic:
            self.topic = ""
            around = self.parentWidget()
            if around is not None:
                for button in (*self._buttons, self.close_button):
                    leave(button, around)
            self.hide()

    def button(self, text: str) -> QPushButton:
        """Return the button with `text`; raises LookupError if there is none."""
        for button in self._buttons:
            if button.text().replace("&", "") == text:
                return button
        raise LookupError(text)

    def _close(self) -> None:
        self.clear()

    def _draw(self) -> None:
        self.icon_name, colour = _SIGNS[self._tone]
        shown = self._theme.colour(colour).name()
        self.sign.setPixmap(drawn(self.icon_name, shown, _SIGN, self.devicePixelRatioF()))
        self.close_button.setIcon(icon("close", self._theme.palette))
