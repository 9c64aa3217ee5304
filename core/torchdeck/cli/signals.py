"""What a front end does with signals: Ctrl-C asks the run to stop; everything else only ends the watching."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

LEAVING = (signal.SIGTERM, signal.SIGHUP)


class FrontEndSignals:
    """While it is entered, signals are counted and no longer end the process."""

    def __init__(self) -> None:
        self.interrupts = 0
        """How often Ctrl-C was pressed."""
        self.leaving: signal.Signals | None = None
        """The signal that wants this process to go."""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        handlers: dict[signal.Signals, Callable[[int, FrameType | None], None]] = {
            signal.SIGINT: self._interrupted,
            **dict.fromkeys(LEAVING, self._left),
        }
        for number, handler in handlers.items():
            # nohup's wish is respected
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, handler)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _interrupted(self, _number: int, _frame: FrameType | None) -> None:
        self.interrupts += 1

    def _left(self, number: int, _frame: FrameType | None) -> None:
        self.leaving = signal.Signals(number)
