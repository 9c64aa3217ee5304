"""Garbage collection in the GUI thread, and in no other."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

_LOOK = 500
"""Milliseconds between two checks."""
_PAUSE = 300.0
"""Seconds between two full collections: one takes 80 ms, and a preview of 1,024 ranks adds 80 ms."""
_OLDEST = 2


class GarbageCollector(QObject):
    """Collector that replaces Python's own, which runs in whichever thread allocates an object.

    A Qt object in a cycle would be destroyed there while its own thread uses it.
    """

    def __init__(self, parent: QObject, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Create the collector without starting it; `clock` is in seconds."""
        super().__init__(parent)
        self._monotonic = clock
        self._last_full = clock()
        self._clock = QTimer(self)
        self._clock.setInterval(_LOOK)
        self._clock.timeout.connect(self.look)

    def start(self) -> None:
        """Start collecting."""
        gc.disable()
        self._clock.start()

    def look(self) -> None:
        """Collect the oldest generation that is due."""
        for generation in (_OLDEST, 1, 0):
            is_due = gc.get_count()[generation] > gc.get_threshold()[generation]
            if is_due and (generation < _OLDEST or self._may_take_long()):
                gc.collect(generation)
                return

    def _may_take_long(self) -> bool:
        now = self._monotonic()
        if now - self._last_full < _PAUSE:
            return False
        self._last_full = now
        return True
