"""Support for a slow disk: the last state is restored once it can be read, and is not overwritten before."""

from __future__ import annotations

import time

from PySide6.QtCore import QObject, QTimer, Signal

from torchdeck_app.window.session.saved_state import SavedState

PATIENCE = 20.0
"""Seconds after which the window continues without it."""
_LOOK = 50
_SAID_AFTER = 1.0


class LateState(QObject):
    """Poller that checks whether settings and session have been read."""

    over = Signal(bool)
    """Emitted once, with whether they have been read."""
    waiting = Signal(float)
    """Emitted with the seconds elapsed if it takes long; 0 once it is over."""

    def __init__(self, kept: SavedState, parent: QObject) -> None:
        super().__init__(parent)
        self._kept = kept
        self._began = 0.0
        self._clock = QTimer(self)
        self._clock.setInterval(_LOOK)
        self._clock.timeout.connect(self._look)

    def start(self) -> None:
        """Start waiting for them; `over` follows, perhaps at once."""
        self._began = time.monotonic()
        self._clock.start()
        self._look()

    def _look(self) -> None:
        waited = time.monotonic() - self._began
        is_read = self._kept.wait(0)
        if not is_read and waited < PATIENCE:
            if waited >= _SAID_AFTER:
                self.waiting.emit(waited)
            return
        self._clock.stop()
        if waited >= _SAID_AFTER:
            self.waiting.emit(0.0)
        self.over.emit(is_read)
