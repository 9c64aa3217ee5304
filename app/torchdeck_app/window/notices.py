"""Short notices that float over the lower left of the window: they take no focus and move nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QHBoxLayout,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from torchdeck_app.theme.icons import icon
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.announcements import announce
from torchdeck_app.widgets.labels import PlainLabel, plain_tip
from torchdeck_app.widgets.panel import GRID, label
from torchdeck_app.widgets.state_badge import Look
from torchdeck_app.window.window_actions import ANSWER_KEYS

STAYS = 10_000
"""Milliseconds that a success notice stays; a failure notice stays until it is closed."""
MOST = 3
_WIDTH = 50 * GRID
"""Pixels; the buttons of the pages, which are at the right, stay in sight."""


@dataclass(frozen=True)
class Notice:
    """Notice with its text and button."""

    text: str
    """May come from files: shown literally."""
    look: Look
    button: str = ""
    call: Callable[[], object] | None = None
    """Called by the button."""
    stays: bool = False
    """Whether it stays until it is closed."""


class Notices(QWidget):
    """Visible notices, newest last; beyond three the oldest is removed."""

    def __init__(self, theme: Theme, over: QWidget) -> None:
        """Create it without notices.

        Args:
            theme: theme of the window.
            over: they are shown over its lower left corner.
        """
        super().__init__(over)
        self.setAccessibleName("Notices")
        self._theme = theme
        self._over = over
        self._cards: list[_Card] = []
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(GRID)
        over.installEventFilter(self)
        self.hide()

    @property
    def shown(self) -> tuple[Notice, ...]:
        """Return the visible notices, newest last."""
        return tuple(card.notice for card in self._cards)

    def show_notice(self, notice: Notice) -> None:
        """Show a notice; one that is visible already is not repeated unless it is news of a run."""
        if notice.call is None and notice.text in (card.notice.text for card in self._cards):
            return
        if len(self._cards) == MOST:
            self._take_away(self._cards[0])
        card = _Card(self._theme, notice, self)
        card.done.connect(lambda: self._take_away(card))
        self._cards.append(card)
        self._column.addWidget(card, 1)
        if not notice.stays:
            QTimer.singleShot(STAYS, card, card.time_is_up)
        self.show()
        self.raise_()
        self.place()
        announce(self, notice.text, urgent=notice.look.colour == "bad")

    def answer_newest(self) -> None:
        """Run the button action of the latest notice; close it if it has none."""
        if self._cards:
            self._cards[-1].answer()

    def place(self) -> None:
        """Stack the notices, newest at the bottom."""
        width = min(_WIDTH, self._over.width() - 2 * GRID)
        height = sum(card.heightForWidth(width) for card in self._cards) + GRID * (len(self._cards) - 1)
        self.setFixedWidth(width)
        self.setGeometry(GRID, self._over.height() - height - GRID, width, height)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if watched is self._over and event.type() is QEvent.Type.Resize and self.isVisible():
            self.place()
        return super().eventFilter(watched, event)

    def _take_away(self, card: _Card) -> None:
        if card not in self._cards:
            return
        self._cards.remove(card)
        self._column.removeWidget(card)
        card.hide()
        card.deleteLater()
        self.setVisible(bool(self._cards))
        if self._cards:
            self.place()


class _Card(QFrame):
    done = Signal()
    """Emitted when it should be removed."""

    def __init__(self, theme: Theme, notice: Notice, parent: QWidget) -> None:
        super().__init__(parent)
        self.setProperty("role", "overlay")
        self.setAccessibleName(notice.text)
        self.notice = notice
        self._theme = theme
        self._sign = PlainLabel(notice.look.sign)
        text = label(notice.text, wrap=True)
        self._close = QToolButton()
        self._close.setAccessibleName("Close this notice")
        self._close.setToolTip("Close this notice")
        self._close.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._close.clicked.connect(self.done)
        row = QHBoxLayout(self)
        row.setContentsMargins(2 * GRID, GRID, GRID, GRID)
        row.setSpacing(GRID)
        row.addWidget(self._sign)
        row.addWidget(text, 1)
        if notice.button:
            button = QPushButton(notice.button)
            button.setToolTip(plain_tip(f"{notice.button} ({ANSWER_KEYS})"))
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            button.clicked.connect(self.answer)
            row.addWidget(button)
        row.addWidget(self._close)
        theme.changed.connect(self._draw)
        self._draw()

    def answer(self) -> None:
        """Close it and run its button action."""
        self.done.emit()
        if self.notice.call is not None:
            self.notice.call()

    def time_is_up(self) -> None:
        """Remove it, unless the user is about to press it."""
        focus: QWidget | None = QApplication.focusWidget()
        if self.underMouse() or (focus is not None and self.isAncestorOf(focus)):
            QTimer.singleShot(STAYS, self, self.time_is_up)
        else:
            self.done.emit()

    def _draw(self) -> None:
        self._sign.setStyleSheet(f"color: {self.notice.look.rgb(self._theme.palette)};")
        self._close.setIcon(icon("close", self._theme.palette))
