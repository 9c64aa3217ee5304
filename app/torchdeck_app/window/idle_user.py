"""Detection of an idle user, and what is reduced meanwhile: polls, cursor blinking and repaints."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QWindow

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


STAYS = 10.0
"""Seconds after the last input until the user counts as idle; the same as for GTK's cursor blinking."""
_TOUCHES = frozenset(
    {
        QEvent.Type.KeyPress,
        QEvent.Type.KeyRelease,
        QEvent.Type.MouseButtonPress,
        QEvent.Type.MouseButtonRelease,
        QEvent.Type.MouseMove,
        QEvent.Type.Wheel,
        QEvent.Type.TouchBegin,
        QEvent.Type.TabletPress,
        QEvent.Type.Drop,
        QEvent.Type.FocusIn,
        QEvent.Type.Resize,
        QEvent.Type.Move,
    }
)


class IdleMonitor(QObject):
    """Monitor of input to the program's windows.

    It does not watch widgets: an application-wide event filter would run Python for each of their events. No
    signal announces new windows, and on some screens only a menu or a drop-down list gets the keyboard. New
    windows are therefore searched before the user counts as idle; opening one counts as activity.
    """

    came = Signal()
    """Emitted when the user becomes active."""
    left = Signal()
    """Emitted after `STAYS` seconds without input."""

    def __init__(
        self, parent: QObject, *, clock: Callable[[], float] = time.monotonic, stays: float = STAYS
    ) -> None:
        """Create the monitor in active state: the user has opened the window."""
        super().__init__(parent)
        self._clock = clock
        self._stays = stays
        self._mark = f"watched by {id(self)}"
        """A property of windows that are watched: what Python has of a window may be made again each time."""
        self._app: QGuiApplication | None = None
        self._touched = clock()
        self._is_there = True
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._look)
        self._timer.start(round(1000 * stays))

    @property
    def are_there(self) -> bool:
        """Return whether there was input in the last `STAYS` seconds."""
        return self._is_there

    def watch(self, app: QGuiApplication) -> None:
        """Watch all windows: existing ones, and new ones before the user counts as idle."""
        self._app = app
        self._find_new()
        app.focusWindowChanged.connect(self._watch_too)

    def touch(self) -> None:
        """Register user activity."""
        self._touched = self._clock()
        if not self._is_there:
            self._is_there = True
            self._timer.start(round(1000 * self._stays))
            self.came.emit()

    def go(self) -> None:
        """Switch to idle state."""
        if self._is_there:
            self._is_there = False
            self._timer.stop()
            self.left.emit()

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if event.type() in _TOUCHES:
            self.touch()
        return False

    def _find_new(self) -> bool:
        """Watch all windows; return whether a visible one was new."""
        windows = () if self._app is None else self._app.topLevelWindows()
        new = [window for window in windows if self._watch_too(window)]
        return any(window.isVisible() for window in new)

    def _watch_too(self, window: QWindow | None) -> bool:
        """Watch a window; return whether it was new."""
        if window is None or window.property(self._mark):
            return False
        window.setProperty(self._mark, True)  # noqa: FBT003 - Qt's
        window.installEventFilter(self)
        return True

    def _look(self) -> None:
        if self._find_new():
            self._touched = self._clock()
        rest = self._touched + self._stays - self._clock()
        if rest > 0:
            self._timer.start(max(1, round(1000 * rest)))
            return
        self.go()
