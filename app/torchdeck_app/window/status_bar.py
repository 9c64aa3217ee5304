"""Status bar: active runs and the window's own operations."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QStatusBar, QToolButton, QWidget

from torchdeck_app.bridge.operations import Operation, Operations
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import ElidedLabel, SteadyLine, plain_tip
from torchdeck_app.widgets.panel import GRID

if TYPE_CHECKING:  # a heavy import, kept out of the first paint
    from torchdeck.runs.run_list import RunsSeen
    from torchdeck_app.widgets.state_badge import Look
    from torchdeck_app.window.running_now import RunningNow


class StatusBar(QStatusBar):
    """Status bar of one line that never grows."""

    run_chosen = Signal(str)
    """Emitted with the id of the clicked run."""

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
        """Process the newest poll of the runs."""
        from torchdeck_app.window.running_now import running_now

        now = running_now(seen.entries)
        if now != self._now or self._trouble:
            self._now, self._trouble = now, ""
            self._draw()

    def show_trouble(self, why: str) -> None:
        """Show why the runs cannot be polled."""
        self._now, self._trouble = None, f"Runs cannot be read: {why}"
        self._draw()

    def show_waiting(self, seconds: float) -> None:
        """Show that a poll of the runs takes long; 0 once it is over."""
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
        if role != self._text.property("role"):  # a run updates every second
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


SHOWN_AFTER = 0.2
"""Seconds."""
CANCEL_AFTER = 5.0
_WIDTH = 40 * GRID


class OperationsLine(QWidget):
    """Line with name and progress of the oldest active operation, and the number of others."""

    def __init__(self, operations: Operations, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._began: dict[Operation[Any], float] = {}
        self._progress: dict[Operation[Any], str] = {}
        self._text = ElidedLabel()
        self._text.setProperty("role", "secondary")
        self._text.setFixedWidth(_WIDTH)
        self._text.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._cancel = QToolButton()
        self._cancel.setText("Cancel")
        self._cancel.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._cancel.clicked.connect(self._cancel_first)
        kept = self._cancel.sizePolicy()
        kept.setRetainSizeWhenHidden(True)
        self._cancel.setSizePolicy(kept)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, GRID, 0)
        row.addWidget(self._text)
        row.addWidget(self._cancel)
        self._clock = QTimer(self)
        self._clock.setInterval(100)
        self._clock.timeout.connect(self._show)
        operations.started.connect(self._add)
        operations.ended.connect(self._remove)
        self._show()

    def _add(self, operation: Operation[Any]) -> None:
        self._began[operation] = time.monotonic()
        operation.progressed.connect(lambda text: self._said(operation, text))
        self._clock.start()

    def _said(self, operation: Operation[Any], text: str) -> None:
        if operation in self._began:
            self._progress[operation] = text

    def _remove(self, operation: Operation[Any]) -> None:
        self._began.pop(operation, None)
        self._progress.pop(operation, None)
        self._show()

    def _first(self) -> Operation[Any] | None:
        return next(iter(self._began), None)

    def _show(self) -> None:
        first = self._first()
        if first is None:
            self._clock.stop()
        waited = 0.0 if first is None else time.monotonic() - self._began[first]
        visible = first is not None and waited >= SHOWN_AFTER
        self._text.setText(self._line(first) if first is not None and visible else "")
        names = "\n".join(operation.name for operation in self._began) if visible else ""
        self._text.setToolTip(plain_tip(names))
        self._cancel.setVisible(visible and waited >= CANCEL_AFTER)
        if first is not None:
            asked = first.token.wanted
            self._cancel.setEnabled(not asked)
            self._cancel.setToolTip(plain_tip(f"Cancel: {first.name}"))
            self._cancel.setAccessibleName(f"Cancel {first.name}")

    def _line(self, first: Operation[Any]) -> str:
        said = self._progress.get(first, "")
        line = f"{first.name}: {said}" if said else f"{first.name} …"
        if first.token.wanted:
            line = f"{first.name}: being cancelled …"
        return line if len(self._began) == 1 else f"{line}  and {len(self._began) - 1} more"

    def _cancel_first(self) -> None:
        first = self._first()
        if first is not None:
            first.cancel()
            self._show()
