"""Background thread that repeats one task and delivers its results to the GUI thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from PySide6.QtCore import QObject, Qt, Signal

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
        self._life = 0
        """Counts the begins: what was seen in one life is not told in another."""
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
                self._life += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._wake.notify()

    def _ask_for_round(self) -> None:
        """Run the next round at once, if started."""
        with self._wake:
            self._is_due = True
            self._wake.notify()

    # in the thread

    def _run(self) -> None:
        life, last = 0, None
        while (found := self._next_round()) is not None:
            now, work = found
            if now != life:
                life, last = now, None
            value, error = self._carry_out(work)
            self._hand_over(life, value, error, last)
            last = value

    def _next_round(self) -> tuple[int, Callable[[], T]] | None:
        """Return the generation and the function of the next round; None: the thread ends."""
        with self._wake:
            while self._is_on and not self._is_due:
                in_time = self._wake.wait(self._rest())
                if not in_time and self._rest() is not None:
                    break
            if not self._is_on:
                self._thread = None
                return None
            self._is_due = False
            return self._life, self._work()

    def _carry_out(self, work: Callable[[], T]) -> tuple[T | None, Exception | None]:
        self._began = time.monotonic()
        try:
            return work(), None
        except Exception as raised:  # noqa: BLE001 - said where it is shown; the next round is made
            return None, raised
        finally:
            self._began = None

    def _hand_over(self, life: int, value: T | None, error: Exception | None, last: T | None) -> None:
        with self._wake:
            if not self._is_on or life != self._life:
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
