"""Background threads that repeat one task and deliver its results to the GUI thread: pollers and feeds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from PySide6.QtCore import QObject, Qt, QTimer, Signal

T = TypeVar("T")


def to_beat(interval: float, now: float) -> float:
    """Return seconds from `now` to the next multiple of `interval` on the clock at least half an interval
    away.

    Pollers with equal intervals run at the same moment: the processor, and the window that paints their
    results, wake once for all of them.
    """
    rest = interval - now % interval
    return rest if rest >= interval / 2 else rest + interval


class BackgroundLoop(QObject, Generic[T]):
    """Loop with at most one thread and one round at a time: the function of a round may keep state.

    There is a thread only while a round runs or is due later, so none is left over.

    Only the newest of several results is delivered: a busy GUI thread never gets more than it can show.
    During a long round (a network drive), `stop` and a restart cost nothing: the round's result is dropped,
    and the thread continues.
    """

    failed = Signal(Exception)
    """Emitted with the exception of a round; the next round runs all the same."""
    _ready = Signal()

    def __init__(self, name: str, interval: float, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._name = name
        self._interval = interval
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_on = False
        self._generation = 0
        """Counts the starts: what was seen in one generation is not reported in another."""
        self._last: tuple[int, T | None] = (0, None)
        """Generation and result of the last round."""
        self._is_due = False
        self._began: float | None = None
        self._outcome: tuple[T | None, Exception | None] | None = None
        self._ready.connect(self._deliver, Qt.ConnectionType.QueuedConnection)

    @property
    def is_running(self) -> bool:
        """Return whether it was started and not stopped since."""
        return self._is_on

    @property
    def seconds_under_way(self) -> float:
        """Return the duration of the current round; 0 if there is none."""
        began = self._began
        return 0.0 if began is None else time.monotonic() - began

    def stop(self, seconds: float = 0.0) -> bool:
        """Start no more rounds, and deliver nothing; return whether no round is running.

        Args:
            seconds: how long to wait for a running round.
        """
        with self._wake:
            self._is_on = False
            self._outcome = None
            self._wake.notify()
            thread = self._thread
        if thread is None:
            return True
        if seconds:
            thread.join(seconds)
        return not thread.is_alive()

    # for subclasses

    def _work(self) -> Callable[[], T]:
        """Return the function of the next round, which is called without the lock. Called with the lock."""
        raise NotImplementedError

    def _rest(self) -> float | None:
        """Return seconds to the next round; None: it runs on request. Called with the lock."""
        raise NotImplementedError

    def _is_news(self, value: T, last: T | None) -> bool:
        """Return whether `value` must be delivered after `last`, which is None for the first."""
        raise NotImplementedError

    def _tell(self, value: T) -> None:
        """Deliver a value, in the GUI thread."""
        raise NotImplementedError

    def _begin(self) -> None:
        """Start the rounds, the first at once; if already started, run the next one at once."""
        with self._wake:
            self._is_due = True
            if not self._is_on:
                self._is_on = True
                self._generation += 1
            self._rouse()

    def _ask_for_round(self) -> None:
        """Run the next round at once, if started."""
        with self._wake:
            self._is_due = True
            self._rouse()

    def _rouse(self) -> None:
        """Have the thread look at what is due; start one if started and there is none. Called with the
        lock.
        """
        if self._is_on and self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._wake.notify()

    # in the thread

    def _run(self) -> None:
        while (found := self._next_round()) is not None:
            generation, work = found
            before, last = self._last
            value, error = self._carry_out(work)
            self._hand_over(generation, value, error, last if before == generation else None)
            self._last = generation, value

    def _next_round(self) -> tuple[int, Callable[[], T]] | None:
        """Return the generation and the function of the next round; None: the thread ends."""
        with self._wake:
            while self._is_on and not self._is_due and (rest := self._rest()) is not None:
                if not self._wake.wait(rest):
                    self._is_due = self._rest() is not None
            if not self._is_on or not self._is_due:
                self._thread = None
                return None
            self._is_due = False
            return self._generation, self._work()

    def _carry_out(self, work: Callable[[], T]) -> tuple[T | None, Exception | None]:
        self._began = time.monotonic()
        try:
            return work(), None
        except Exception as raised:  # noqa: BLE001 - said where it is shown; the next round is made
            return None, raised
        finally:
            self._began = None

    def _hand_over(self, generation: int, value: T | None, error: Exception | None, last: T | None) -> None:
        with self._wake:
            if not self._is_on or generation != self._generation:
                return
            if error is None and not self._is_news(value, last):  # type: ignore[arg-type]  # T may be Optional
                return
            self._outcome = (value, error)
            with suppress(RuntimeError):  # the window is gone
                self._ready.emit()

    def _deliver(self) -> None:
        """Deliver results, in the GUI thread."""
        with self._wake:
            outcome, self._outcome = self._outcome, None
        if outcome is None:
            return
        value, error = outcome
        if error is not None:
            self.failed.emit(error)
        else:
            self._tell(value)  # type: ignore[arg-type]  # T may be Optional


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
        self,
        name: str,
        answer: Callable[[Q], A],
        interval: float | None = None,
        parent: QObject | None = None,
    ) -> None:
        """Create a feed without a request; `interval` None: each request is answered once."""
        super().__init__(name, interval or 0.0, parent)
        self._answer = answer
        self._request: Q
        self._follows = interval is not None
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
            self._rouse()

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
