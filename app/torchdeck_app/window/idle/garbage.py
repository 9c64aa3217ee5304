"""Collecting Python's garbage in the GUI thread, and nowhere else."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

_LOOK = 500
"""Milliseconds."""
_PATIENCE = 300.0
"""Seconds that the oldest generation waits for the person to rest: to walk over all there is takes 80 ms with
the preview of 1,024 ranks."""
_OLDEST = 2


class GarbageCollector(QObject):
    """Stands in for Python's own, which runs in whichever thread is about to make an object.

    An object of Qt that goes in a cycle would be destroyed there, while its own thread uses it.
    """

    def __init__(
        self,
        parent: QObject,
        *,
        rests: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is collected yet.

        Args:
            parent: owns it.
            rests: whether nobody would notice that the window stands still for a moment.
            clock: in seconds.
        """
        super().__init__(parent)
        self._rests = rests
        self._monotonic = clock
        self._due: float | None = None
        """Since when the oldest generation waits."""
        self._clock = QTimer(self)
        self._clock.setInterval(_LOOK)
        self._clock.timeout.connect(self.look)

    def start(self) -> None:
        """From now on. What there is stays out of it: to look through all that is imported takes 0.25 s."""
        gc.disable()
        gc.freeze()
        self._clock.start()

    def look(self) -> None:
        """Collect the oldest generation that is due; of all, only where it can be afforded."""
        for generation in (_OLDEST, 1, 0):
            is_due = gc.get_count()[generation] > gc.get_threshold()[generation]
            if is_due and (generation < _OLDEST or self._may_take_long()):
                gc.collect(generation)
                return

    def _may_take_long(self) -> bool:
        now = self._monotonic()
        if self._due is None:
            self._due = now
        if not self._rests() and now - self._due < _PATIENCE:
            return False
        self._due = None
        return True
