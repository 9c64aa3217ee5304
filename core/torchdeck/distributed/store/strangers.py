"""Who wanted to take part in a run's store and was not let in: counted, and reported at a bounded rate."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from pathlib import Path

_REPORTED = 5
"""Strangers that have a line each; of later ones the 10th, 100th, …."""
_EVERY = 1.0
"""Seconds between two writes of the file."""


class Strangers:
    """Args: `path`: the file that says how many there were, for the agent; None: there is none."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._written = 0.0
        self.count = 0

    def refused(self, address: str, why: str) -> None:
        """One more."""
        with self._lock:
            self.count += 1
            if self.count <= _REPORTED or self.count in (10**power for power in range(1, 10)):
                print(
                    f"torchdeck: a connection from {address} to the run's store was refused: {why} "
                    f"(number {self.count})",
                    file=sys.stderr,
                    flush=True,
                )
            now = time.monotonic()
            if self._path is not None and (self.count <= _REPORTED or now - self._written > _EVERY):
                self._written = now
                self._write(self._path, {"count": self.count, "address": address, "why": why})

    def _write(self, path: Path, value: dict[str, object]) -> None:
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        with contextlib.suppress(OSError):  # standard error has it, too
            unfinished.write_text(json.dumps(value) + "\n")
            unfinished.replace(path)
