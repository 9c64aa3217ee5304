"""The thread that reads the logs of a run, so that no disk ever holds the window up."""

from __future__ import annotations

import threading
import time

from PySide6.QtCore import QObject, Signal

from torchdeck.contract.layout import RunLayout
from torchdeck_app.bridge.background_loop import to_beat
from torchdeck_app.runs.logs.reader import LogReader

INTERVAL = 1.0
"""Seconds between two looks at what was appended, as `tail -f` waits; an order is carried out at once."""
_SETTINGS = frozenset({"choose", "look_for", "show_until", "want", "mark"})
"""Orders of which only the newest counts."""


class LogWorker(QObject):
    """Reads, searches and copies; every answer is a signal in the GUI thread."""

    page = Signal(object)
    """A LogPage, where it differs from the last."""
    found = Signal(object)
    """A Found, where it differs from the last."""
    go_to = Signal(int)
    """The row that was asked for: of a match, an error, a moment."""
    marked = Signal(object)
    """Row at the time cursor, or None."""
    copied = Signal(str)
    said = Signal(str)
    """What came of an order, in words."""

    def __init__(self, layout: RunLayout, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._reader = LogReader(layout)
        self._wake = threading.Condition()
        self._orders: list[tuple[str, object]] = []
        self._thread: threading.Thread | None = None
        self._is_paused = True
        self._is_stopped = False

    def start(self) -> None:
        """Read from now on, or again after `pause`."""
        with self._wake:
            self._is_paused = False
            self._wake.notify()
        if self._thread is None and not self._is_stopped:
            self._thread = threading.Thread(target=self._run, name="logs", daemon=True)
            self._thread.start()

    def pause(self) -> None:
        """Read nothing until `start`; what was read stays, and so do orders."""
        with self._wake:
            self._is_paused = True

    def stop(self) -> None:
        """Read no more, and say nothing any more; waits for nothing."""
        with self._wake:
            self._is_stopped = True
            self._orders.clear()
            self._wake.notify()

    def order(self, what: str, value: object = None) -> None:
        """Have the thread do something: the name of a method of `LogReader`."""
        with self._wake:
            if what in _SETTINGS:
                self._orders = [order for order in self._orders if order[0] != what]
            self._orders.append((what, value))
            self._wake.notify()

    def _run(self) -> None:
        """In the thread."""
        busy = False
        while (orders := self._next_orders(busy=busy)) is not None:
            self._tell(self._reader.look(orders))
            busy = self._reader.is_busy

    def _next_orders(self, *, busy: bool) -> list[tuple[str, object]] | None:
        """What is to be done; None: end."""
        with self._wake:
            if not busy and not self._orders and not self._is_stopped:
                self._wake.wait(max(to_beat(INTERVAL, time.monotonic()), self._reader.rest))
            while self._is_paused and not self._is_stopped:
                self._wake.wait()
            if self._is_stopped:
                return None
            taken, self._orders = self._orders, []
        return taken

    def _tell(self, answers: list[tuple[str, object]]) -> None:
        """Each answer is the name of a signal and what it carries."""
        for name, value in answers:
            with self._wake:  # what was stopped may be gone the next moment
                if self._is_stopped:
                    return
                getattr(self, name).emit(value)
