"""Collecting Python's garbage in the GUI thread, and nowhere else."""

from __future__ import annotations

import gc

from PySide6.QtCore import QObject, QTimer

_LOOK = 500
"""Milliseconds."""


class GarbageCollector(QObject):
    """Stands in for Python's own, which runs in whichever thread is about to make an object.

    An object of Qt that goes in a cycle would be destroyed there, while its own thread uses it.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._clock = QTimer(self)
        self._clock.setInterval(_LOOK)
        self._clock.timeout.connect(self.look)

    def start(self) -> None:
        """From now on. What there is stays out of it: to look through all that is imported takes 0.25 s."""
        gc.disable()
        gc.freeze()
        self._clock.start()

    def look(self) -> None:
        """Collect the oldest generation that is due."""
        for generation in (2, 1, 0):
            if gc.get_count()[generation] > gc.get_threshold()[generation]:
                gc.collect(generation)
                return
