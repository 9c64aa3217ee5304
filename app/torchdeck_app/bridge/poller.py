"""Polling of a possibly slow source in a thread of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from PySide6.QtCore import QObject, QTimer, Signal

from torchdeck_app.bridge.background_loop import BackgroundLoop, to_beat

T = TypeVar("T")
SLOW = 1.0
"""Seconds after which a poll is reported as slow."""


class Poller(BackgroundLoop[T]):
    """Poller that calls `look` every `interval` seconds in one thread and delivers the newest result to the
    GUI thread.

    The GUI thread never waits for a slow poll: it gets the available result, and is notified of a poll that
    takes longer than `SLOW`.
    """

    changed = Signal(object)
    """Emitted with a result if it differs (`!=`) from the previous one."""
    waiting = Signal(float)
    """Emitted with the seconds of the current poll while it is slow; 0 once it is over."""

    def __init__(
        self, name: str, look: Callable[[], T], interval: float, parent: QObject | None = None
    ) -> None:
        super().__init__(name, interval, parent)
        self._look = look
        self._was_slow = False
        self._watch = QTimer(self)
        self._watch.setInterval(500)
        self._watch.timeout.connect(self._tell_waiting)

    def start(self) -> None:
        """Poll now and from then on; does nothing if already started."""
        if not self.is_running:
            self._begin()
            self._watch.start()

    def stop(self, seconds: float = 0.0) -> bool:
        self._watch.stop()
        return super().stop(seconds)

    def poke(self) -> None:
        """Poll again at once."""
        self._ask_for_round()

    def set_interval(self, seconds: float) -> None:
        self._interval = seconds
        self.poke()

    def _work(self) -> Callable[[], T]:
        return self._look

    def _rest(self) -> float:
        return to_beat(self._interval, time.monotonic())

    def _is_news(self, value: T, last: T | None) -> bool:
        return bool(value != last)

    def _tell(self, value: T) -> None:
        self.changed.emit(value)

    def _tell_waiting(self) -> None:
        seconds = self.seconds_under_way
        if seconds >= SLOW:
            self._was_slow = True
            self.waiting.emit(seconds)
        elif self._was_slow:
            self._was_slow = False
            self.waiting.emit(0.0)
