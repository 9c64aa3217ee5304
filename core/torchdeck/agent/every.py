"""A thread that does something again and again, so that a slow disk or driver never stops the loop."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable


class Every:
    """Calls `work` each `interval` seconds in a thread of its own; an error is said once, no more."""

    def __init__(self, interval: float, work: Callable[[], None], name: str) -> None:
        self._interval = interval
        self._work = work
        self._said = ""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """End it after the call that runs now; waits for that at most `seconds`."""
        self._stopped.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stopped.is_set():
            try:
                self._work()
            except Exception as error:  # noqa: BLE001 - sampling is never worth a run
                if repr(error) != self._said:
                    self._said = repr(error)
                    print(f"{self._thread.name}: {error!r}", file=sys.stderr, flush=True)
            due = max(due + self._interval, time.monotonic())
            self._stopped.wait(due - time.monotonic())
