"""Reductions while the user is idle: no cursor blinking, and fewer repaints."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer
from PySide6.QtGui import QGuiApplication

from torchdeck_app.window.idle.idle_monitor import IdleMonitor

GATHER = 60
"""Milliseconds over which repaints are combined: polls of a run arrive at about the same time."""
_IN_A_ROW = 0.2
"""Maximum seconds between repaints that count as an animation, such as a replay: these are not delayed."""


class IdleThrottle(QObject):
    """Throttle that follows the user's activity."""

    def __init__(
        self,
        idle_monitor: IdleMonitor,
        paint: Callable[[], None],
        parent: QObject,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the throttle without pending repaints.

        Args:
            hands: reports whether the user is active.
            paint: does all pending repaints.
            parent: its owner.
            clock: in seconds.
        """
        super().__init__(parent)
        self._idle_monitor = idle_monitor
        self._paint = paint
        self._clock = clock
        self._painted = clock()
        self._timer = QTimer(self, singleShot=True, interval=GATHER)
        self._timer.timeout.connect(self._paint_now)
        self._blinks = QGuiApplication.styleHints().cursorFlashTime()
        idle_monitor.came.connect(self._wake)
        idle_monitor.left.connect(lambda: QGuiApplication.styleHints().setCursorFlashTime(0))

    def gathers(self) -> bool:
        """Return whether a requested repaint can be delayed; if so, it follows shortly."""
        if self._timer.isActive():
            return True
        now = self._clock()
        if self._idle_monitor.are_there or now - self._painted < _IN_A_ROW:
            self._painted = now
            return False
        self._timer.start()
        return True

    def _wake(self) -> None:
        QGuiApplication.styleHints().setCursorFlashTime(self._blinks)
        if self._timer.isActive():
            self._paint_now()

    def _paint_now(self) -> None:
        self._timer.stop()
        self._painted = self._clock()
        self._paint()
