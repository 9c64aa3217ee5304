"""Whether somebody is at the window: what nobody looks for can be looked at more rarely."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QWindow

STAYS = 10.0
"""Seconds after the last key or movement in which somebody is taken to be there; as long as GTK's cursor
blinks."""
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
    """Watches what the windows of the program get from outside.

    Widgets are not asked: a filter of the whole program would run Python for each of their events. Nobody is
    told of a new window, and a menu or a list of choices gets the keyboard on some screens only: they are
    looked for before somebody is taken to be gone, and who opened one is there.
    """

    came = Signal()
    """Somebody is there again."""
    left = Signal()
    """Nobody has been there for `STAYS` seconds."""

    def __init__(
        self, parent: QObject, *, clock: Callable[[], float] = time.monotonic, stays: float = STAYS
    ) -> None:
        """Somebody is there: they have opened the window."""
        super().__init__(parent)
        self._clock = clock
        self._stays = stays
        self._mark = f"watched by {id(self)}"
        """A property of windows that are watched: what Python has of a window may be made anew each time."""
        self._app: QGuiApplication | None = None
        self._touched = clock()
        self._is_there = True
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._look)
        self._timer.start(round(1000 * stays))

    @property
    def are_there(self) -> bool:
        """Whether somebody was there in the last `STAYS` seconds."""
        return self._is_there

    def watch(self, app: QGuiApplication) -> None:
        """Watch all windows: those there are, and new ones before somebody is taken to be gone."""
        self._app = app
        self._find_new()
        app.focusWindowChanged.connect(self._watch_too)

    def touch(self) -> None:
        """Somebody has done something."""
        self._touched = self._clock()
        if not self._is_there:
            self._is_there = True
            self._timer.start(round(1000 * self._stays))
            self.came.emit()

    def go(self) -> None:
        """Nobody is there any more."""
        if self._is_there:
            self._is_there = False
            self._timer.stop()
            self.left.emit()

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if event.type() in _TOUCHES:
            self.touch()
        return False

    def _find_new(self) -> bool:
        """Watch all windows; whether one in sight was not."""
        windows = () if self._app is None else self._app.topLevelWindows()
        new = [window for window in windows if self._watch_too(window)]
        return any(window.isVisible() for window in new)

    def _watch_too(self, window: QWindow | None) -> bool:
        """Watch a window; whether it was not."""
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
