"""Signals in a front end: one key requests a stop of the run, everything else ends the watching."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

LEAVING = (signal.SIGTERM, signal.SIGHUP)


class FrontEndSignals:
    """While it is entered, signals are counted and no longer end the process.

    In front of a run that it has started, Ctrl-C stops the run. One that attached to a run leaves it by
    Ctrl-C, as a person who only looks must not end it by habit, and stops it by Ctrl-\\.
    """

    def __init__(self, *, attached: bool = False) -> None:
        self.attached = attached
        self.interrupts = 0
        """How often the key was pressed that stops the run."""
        self.leaving: signal.Signals | None = None
        """The signal that wants this process to go."""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        handlers: dict[signal.Signals, Callable[[int, FrameType | None], None]] = {
            **dict.fromkeys(LEAVING, self._left),
            signal.SIGINT: self._left if self.attached else self._interrupted,
        }
        if self.attached:
            handlers[signal.SIGQUIT] = self._interrupted
        for number, handler in handlers.items():
            # respect nohup
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, handler)
        return self

    @property
    def stop_key(self) -> str:
        """Name of the key that stops the run."""
        return "Ctrl-\\" if self.attached else "Ctrl-C"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _interrupted(self, _number: int, _frame: FrameType | None) -> None:
        self.interrupts += 1

    def _left(self, number: int, _frame: FrameType | None) -> None:
        self.leaving = signal.Signals(number)
