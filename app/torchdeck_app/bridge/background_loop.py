"""The life of a thread that does one thing again and again, and hands what came of it to the GUI thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from PySide6.QtCore import QObject, Qt, Signal

T = TypeVar("T")


def to_beat(interval: float, now: float) -> float:
    """Seconds from `now` to the next multiple of `interval` on the clock that is at least half of it away.

    So all that look as often as each other do so at the same moment: the processor, and the window that
    paints what they found, wake once for all of them.
    """
    rest = interval - now % interval
    return rest if rest >= interval / 2 else rest + interval


class BackgroundLoop(QObject, Generic[T]):
    """One thread at most, and one round at a time: what a round calls may keep what it saw.

    Of several results only the newest is delivered: a GUI thread that is busy is never given more than it can
    show. While a round goes on for long (a network drive), `stop` and a new begin cost nothing: the round's
    result is dropped, and the same thread goes on.
    """

    failed = Signal(Exception)
    """What a round raised; the next one is made all the same."""
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
        """Begun, and not stopped since."""
        return self._is_on

    @property
    def seconds_under_way(self) -> float:
        """How long the round under way has taken; 0 while there is none."""
        began = self._began
        return 0.0 if began is None else time.monotonic() - began

    def stop(self, seconds: float = 0.0) -> bool:
        """Begin no round any more, and deliver nothing; whether no round is under way.

        Args:
            seconds: how long to wait for a round under way.
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

    # for those that inherit

    def _work(self) -> Callable[[], T]:
        """What the round that begins now calls, without the lock. Called with it."""
        raise NotImplementedError

    def _rest(self) -> float | None:
        """Seconds to the next round; None: it comes when it is asked for. Called with the lock."""
        raise NotImplementedError

    def _is_news(self, value: T, last: T | None) -> bool:
        """Whether `value` has to be told after `last`, which is None where there was none."""
        raise NotImplementedError

    def _tell(self, value: T) -> None:
        """In the GUI thread: here it is."""
        raise NotImplementedError

    def _begin(self) -> None:
        """Begin the rounds, the first at once; where they have begun, the next one at once."""
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
        """The next round comes at once, where rounds have begun."""
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
        """In which life the next round is, and what it calls; None: the thread is at its end."""
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
        """In the GUI thread."""
        with self._wake:
            outcome, self._outcome = self._outcome, None
        if outcome is None:
            return
        value, error = outcome
        if error is not None:
            self.failed.emit(error)
        else:
            self._tell(value)  # type: ignore[arg-type]  # T may be Optional
