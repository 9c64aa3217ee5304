"""Watch for changes of the open file on disk, off the GUI thread.

It compares time and size: file system notifications miss changes made through a network drive.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject

from torchdeck_app.bridge.background_loop import Poller
from torchdeck_app.launch.files.disk import Stamp, stamp_of

INTERVAL = 1.0
"""Seconds between two looks."""


@dataclass(frozen=True)
class Seen:
    """Result of a poll."""

    path: Path | None
    stamp: Stamp | None
    """None if there is no file."""
    error: str = ""
    turn: int = 0
    """Number of calls of `watch`, each of which causes a report even if nothing has changed."""


class FileWatch(Poller[Seen]):
    """Poller of a file: `changed` reports its state; `watch` sets the path."""

    def __init__(self, parent: QObject | None = None, interval: float = INTERVAL) -> None:
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._turn = 0
        super().__init__("watching the run file", self._seen, interval, parent)

    def watch(self, path: Path | None) -> None:
        """Watch `path` from now on and report its state; None: nothing."""
        with self._lock:
            self._path = path
            self._turn += 1
        self.poke()

    def _seen(self) -> Seen:
        with self._lock:
            path, turn = self._path, self._turn
        if path is None:
            return Seen(None, None)
        try:
            return Seen(path, stamp_of(path), turn=turn)
        except OSError as error:
            return Seen(path, None, error.strerror or str(error), turn)
