"""How long the window's GUI thread was kept from its event loop, and where."""

import os
import sys
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import Any

from PySide6.QtCore import QObject, Qt, QTimer

EVERY = 20
"""Milliseconds between two beats."""
LONG = 0.2
"""Seconds after which it is written down where the thread is."""


class Pulse(QObject):
    """Beats in the GUI thread; what threads of the process waited for a core without success is not counted.

    All of them, as one that holds Python's lock and has no core keeps the others waiting too.
    Where it is held is looked up by a thread with Python's lock: without it, as faulthandler does it in
    `dump_traceback_later`, frames go while they are read, and the process ends by SIGSEGV now and then.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen = ""
        self._longest = 0.0
        self._where = ""
        self._last, self._waited = time.monotonic(), self._waited_for_core()
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(EVERY)
        self._timer.timeout.connect(self.beat)
        self._timer.start()
        threading.Thread(target=self._watch, name="pulse", daemon=True).start()

    def beat(self) -> None:
        """The event loop is reached."""
        now, waited = time.monotonic(), self._waited_for_core()
        held = now - self._last - (waited - self._waited)
        if held > self._longest:
            self._longest = held
            self._where = self._seen
        self._begin(now, waited)

    def skip(self) -> None:
        """What continued since the last beat is not the window's: it starts over."""
        self._begin(time.monotonic(), self._waited_for_core())

    def _begin(self, now: float, waited: float) -> None:
        self._last, self._waited = now, waited
        self._seen = ""

    def take(self) -> dict[str, Any]:
        """The longest time, in seconds, since this was asked last, and what all threads did."""
        taken = {"pid": os.getpid(), "longest": self._longest, "where": self._where}
        self._longest, self._where = 0.0, ""
        return taken

    @staticmethod
    def _waited_for_core() -> float:
        """Seconds that threads were in the queue of those that could run, so far."""
        waited = 0
        for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 - fifty times a second, for all threads
            with suppress(OSError):  # it has ended
                file = os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY)
                try:
                    waited += int(os.read(file, 100).split()[1])
                finally:
                    os.close(file)
        return waited / 1e9

    def _watch(self) -> None:
        """In a thread, for as long as the process lives."""
        while True:
            left = self._last + LONG - time.monotonic()
            if left > 0 or self._seen:
                time.sleep(max(left, EVERY / 1000))
                continue
            self._seen = _steps()


def _steps() -> str:
    """What each other thread does, the innermost step last.

    Frames are let go within one turn of this thread: a painter that one of them holds must end with it.
    """
    own, frames = threading.get_ident(), sys._current_frames()
    steps: list[tuple[int, str, int, str]] = []
    for thread, frame in frames.items():
        outer: FrameType | None = frame if thread != own else None
        while outer is not None:
            steps.append((thread, outer.f_code.co_filename, outer.f_lineno, outer.f_code.co_name))
            outer = outer.f_back
    del frames, frame
    return "\n".join(f"thread {thread}: {file}:{line} {name}" for thread, file, line, name in reversed(steps))
