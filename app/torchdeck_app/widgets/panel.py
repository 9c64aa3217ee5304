"""Panel with a heading over its content, and the empty state of a page."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.icons import drawn
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import PlainLabel

GRID = 8
"""Layout unit in pixels; inside controls half of it is used."""


def label(text: str = "", kind: Type = Type.BODY, role: str = "", *, wrap: bool = False) -> QLabel:
    """Create a label with plain text, never HTML; `role` is `secondary`, `error`, `warning` or empty."""
    made = PlainLabel(text)
    made.setFont(font(kind))
    made.setWordWrap(wrap)
    if role:
        made.setProperty("role", role)
    return made


class Panel(QFrame):
    """Framed part of a page."""

    def __init__(self, title: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "panel")
        if title:
            self.setAccessibleName(title)
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(2 * GRID, GRID + 4, 2 * GRID, GRID + 4)
        self._layout.setSpacing(GRID)
        self.header = QHBoxLayout()
        """Beside the title, for what belongs to the whole panel."""
        if title:
            self.header.addWidget(label(title, Type.HEADING))
            self.header.addStretch(1)
            self._layout.addLayout(self.header)

    def add(self, widget: QWidget, stretch: int = 0) -> None:
        """Append `widget` at the bottom."""
        self._layout.addWidget(widget, stretch)


# Empty state of a page: a picture, a sentence, and a button that fills the page.

WIDEST = 64 * GRID
"""Maximum width of the sentence in pixels."""


class EmptyState(QWidget):
    """Placeholder that explains what will be shown here."""

    def __init__(
        self,
        theme: Theme,
        icon: str,
        title: str,
        sentence: str,
        *,
        button: str = "",
        pressed: Callable[[], None] | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._icon = icon
        self._picture = QLabel()
        self._picture.setAlignment(Qt.AlignmentFlag.AlignCenter)
        layout = QVBoxLayout(self)
        layout.setSpacing(GRID)
        layout.addStretch(1)
        layout.addWidget(self._picture)
        self._sentence = label(sentence, role="secondary", wrap=True)
        self._title = label(title, Type.HEADING)
        for text in (self._title, self._sentence):
            text.setAlignment(Qt.AlignmentFlag.AlignCenter)
            layout.addLayout(_centred(text))
        if button:
            self.button = QPushButton(button)
            self.button.setProperty("role", "primary")
            if pressed is not None:
                self.button.clicked.connect(pressed)
            layout.addSpacing(GRID)
            layout.addWidget(self.button, alignment=Qt.AlignmentFlag.AlignCenter)
        layout.addStretch(2)
        theme.changed.connect(self._draw)
        self._draw()

    def set_title(self, title: str) -> None:
        """Change the heading."""
        self._title.setText(title)

    def set_sentence(self, sentence: str) -> None:
        """Change the sentence."""
        self._sentence.setText(sentence)

    def add_second(self, button: QPushButton) -> None:
        """Add a second button right below the first."""
        layout = self.layout()
        assert isinstance(layout, QVBoxLayout)  # noqa: S101 - made above
        layout.insertWidget(layout.count() - 1, button, alignment=Qt.AlignmentFlag.AlignCenter)

    def _draw(self) -> None:
        self._picture.setPixmap(drawn(self._icon, self._theme.palette.quiet, 48, self.devicePixelRatioF()))


def _centred(text: QLabel) -> QHBoxLayout:
    """Center a text, no wider than is easy to read."""
    text.setMaximumWidth(WIDEST)
    row = QHBoxLayout()
    row.addStretch(1)
    row.addWidget(text, 100)
    row.addStretch(1)
    return row
