"""The bar below: what runs now, and what the window itself is busy with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QSizePolicy, QStatusBar, QToolButton, QWidget

from torchdeck_app.bridge.operations import Operations
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.panel import GRID
from torchdeck_app.widgets.steady_label import SteadyLine
from torchdeck_app.widgets.tooltip import plain_tip
from torchdeck_app.window.news.operations_line import OperationsLine

if TYPE_CHECKING:  # it imports much, and the first paint waits for nothing
    from torchdeck.runs.run_list import RunsSeen
    from torchdeck_app.widgets.state_badge import Look
    from torchdeck_app.window.news.running_now import RunningNow


class StatusBar(QStatusBar):
    """One line that never grows."""

    run_chosen = Signal(str)
    """The id of the run that was pressed."""

    def __init__(self, theme: Theme, operations: Operations, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizeGripEnabled(False)
        self.setContentsMargins(GRID, 0, 0, 0)
        self.setAccessibleName("Status")
        self._theme = theme
        self._now: RunningNow | None = None
        """None while nothing is known of the runs."""
        self._trouble = ""
        self._waiting = 0.0
        """Seconds that a look at the runs takes, while that is long."""
        self._sign = QToolButton()
        self._sign.setProperty("role", "sign")
        self._sign.setAccessibleName("Open the run that is running")
        self._sign.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._sign.clicked.connect(self._open)
        self._text = SteadyLine()
        self._text.pressed.connect(self._open)
        self._text.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.addWidget(self._sign)
        self.addWidget(self._text, 1)
        self.operations = OperationsLine(operations)
        self.addPermanentWidget(self.operations)
        theme.changed.connect(self._draw)
        self._draw()

    def show_runs(self, seen: RunsSeen) -> None:
        """What the newest look at the runs found."""
        from torchdeck_app.window.news.running_now import running_now

        now = running_now(seen.entries)
        if now != self._now or self._trouble:
            self._now, self._trouble = now, ""
            self._draw()

    def show_trouble(self, why: str) -> None:
        """The runs cannot be looked at."""
        self._now, self._trouble = None, f"Runs cannot be looked at: {why}"
        self._draw()

    def show_waiting(self, seconds: float) -> None:
        """A look at the runs takes long; 0 once it is over."""
        self._waiting = seconds
        self._draw()

    def _draw(self) -> None:
        now = self._now
        look = None if now is None else now.look
        self._sign.setVisible(look is not None)
        if look is not None:
            self._sign.setText(look.sign)
            self._colour(look)
        self._text.setText(self._said())
        role = "" if look is not None else "secondary"
        if role != self._text.property("role"):  # a run tells of itself every second
            self._text.setProperty("role", role)
            self._text.style().polish(self._text)
        hint = self._trouble if now is None or not now.run_id else f"{now.more}\nPress to open it"
        hint = plain_tip(hint)
        self._text.setToolTip(hint)
        self._sign.setToolTip(hint)
        self._sign.setAccessibleDescription("" if now is None else now.text)

    def _colour(self, look: Look) -> None:
        wanted = f"color: {look.rgb(self._theme.palette)};"
        if wanted != self._sign.styleSheet():
            self._sign.setStyleSheet(wanted)

    def _said(self) -> str:
        slow = f"waiting for the folder of runs for {self._waiting:.0f} s" if self._waiting else ""
        parts = (self._trouble if self._now is None else self._now.text, slow)
        return "  ·  ".join(part for part in parts if part)

    def _open(self) -> None:
        if self._now is not None and self._now.run_id:
            self.run_chosen.emit(self._now.run_id)
