"""Short notices at the lower edge of the window: they take no focus, and the content makes room for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QApplication,
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QPushButton,
    QToolButton,
    QWidget,
)

from torchdeck_app.theme.icons import icon
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import PlainLabel, plain_tip
from torchdeck_app.widgets.panel import GRID, label
from torchdeck_app.widgets.state_badge import Look
from torchdeck_app.window.window_actions import ANSWER_KEYS

STAYS = 10_000
"""Milliseconds that a success notice stays; a failure notice stays until it is closed."""
MOST = 3
_WIDTH = 60 * GRID
_ALONE = 96 * GRID
"""Width of a single notice: most texts fit into one or two lines, and the page keeps its height."""
_BESIDE = 42 * GRID
"""Minimum width in pixels for notices side by side; below it, they are stacked."""
_SHARE = 0.5
"""Maximum share of the content's height; in a small window notices cover what exceeds it."""


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
            over: a widget with a layout, at whose lower edge they are shown; its contents end above them.
        """
        super().__init__(over)
        self.setAccessibleName("Notices")
        self._theme = theme
        self._over = over
        self._cards: list[_Card] = []
        self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(GRID)
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
        self._row.addWidget(card, 1)
        if not notice.stays:
            QTimer.singleShot(STAYS, card, card.time_is_up)
        self.show()
        self.raise_()
        self.place()

    def answer_newest(self) -> None:
        """Run the button action of the latest notice; close it if it has none."""
        if self._cards:
            self._cards[-1].answer()

    def place(self) -> None:
        """Center the notices at the lower edge, below the content."""
        over, many = self._over, len(self._cards)
        if not many:
            over.setContentsMargins(0, 0, 0, 0)
            return
        room, gaps = over.width() - 4 * GRID, GRID * (many - 1)
        beside = room >= many * _BESIDE + gaps
        ways = QBoxLayout.Direction
        self._row.setDirection(ways.LeftToRight if beside else ways.TopToBottom)
        wanted = _ALONE if many == 1 else many * _WIDTH + gaps if beside else _WIDTH
        width = min(wanted, room)
        heights = [card.heightForWidth((width - gaps) // many if beside else width) for card in self._cards]
        height = max(heights) if beside else sum(heights) + gaps
        self.setFixedWidth(width)
        self.setGeometry((over.width() - width) // 2, over.height() - height - GRID, width, height)
        over.setContentsMargins(0, 0, 0, min(height + 2 * GRID, int(_SHARE * over.height())))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if watched is self._over and event.type() is QEvent.Type.Resize and self.isVisible():
            self.place()
        return super().eventFilter(watched, event)

    def _take_away(self, card: _Card) -> None:
        if card not in self._cards:
            return
        self._cards.remove(card)
        self._row.removeWidget(card)
        card.hide()
        card.deleteLater()
        self.setVisible(bool(self._cards))
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
