"""Answers to the newest request, computed in a thread of their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

from PySide6.QtCore import QObject, Signal

from torchdeck_app.bridge.background_loop import BackgroundLoop, to_beat

Q = TypeVar("Q")
A = TypeVar("A")
_REST = 2.0
"""Rest after an answer as a multiple of its duration: a thread that shares Python's lock with the GUI thread
works at most a third of the time.
"""


class Feed(BackgroundLoop[A], Generic[Q, A]):
    """Feed that calls `answer(request)` in one thread: at once for a new request, and then every `interval`
    seconds.

    Only the newest of several requests is answered. An answer that is the previous one (the same object) is
    not delivered again.
    """

    answered = Signal(object)

    def __init__(
        self, name: str, answer: Callable[[Q], A], interval: float, parent: QObject | None = None
    ) -> None:
        super().__init__(name, interval, parent)
        self._answer = answer
        self._request: Q
        self._follows = True
        self._took = 0.0

    def ask(self, request: Q) -> None:
        """Answer this request from now on; start the thread if there is none."""
        with self._wake:
            self._request = request
        self._begin()

    def follow(self, *, on: bool) -> None:
        """Set whether to repeat answers, or to answer only new requests (the display is frozen)."""
        with self._wake:
            self._follows = on
            self._is_due |= on
            self._wake.notify()

    def set_interval(self, seconds: float) -> None:
        """Set the interval of repeated answers, from the next answer on."""
        self._interval = seconds

    def _work(self) -> Callable[[], A]:
        request = self._request

        def answer() -> A:
            began = time.monotonic()
            try:
                return self._answer(request)
            finally:
                self._took = time.monotonic() - began

        return answer

    def _rest(self) -> float | None:
        if not self._follows:
            return None
        return max(to_beat(self._interval, time.monotonic()), _REST * self._took)

    def _is_news(self, value: A, last: A | None) -> bool:
        return value is not last

    def _tell(self, value: A) -> None:
        self.answered.emit(value)
