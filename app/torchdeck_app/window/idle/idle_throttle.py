"""What the window leaves undone while nobody is at it: a blinking cursor, and painting in small pieces."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer
from PySide6.QtGui import QGuiApplication

from torchdeck_app.window.idle.idle_monitor import IdleMonitor

GATHER = 60
"""Milliseconds for which what is to be painted is gathered: looks at a run come in at about the same time."""
_IN_A_ROW = 0.2
"""Seconds between two paintings that are frames of a movement, such as a replay: these do not wait."""


class IdleThrottle(QObject):
    """Follows whether somebody is there."""

    def __init__(
        self,
        idle_monitor: IdleMonitor,
        paint: Callable[[], None],
        parent: QObject,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing waits to be painted yet.

        Args:
            hands: says whether somebody is there.
            paint: paints all that waits to be painted.
            parent: owns it.
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
        """Something is to be painted: whether that can wait, and is done in a moment."""
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
