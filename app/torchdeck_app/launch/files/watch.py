"""Looks, off the GUI thread, whether the file that is open has changed on disk.

By its time and size: what the system tells of changes misses those made through a network drive.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject

from torchdeck_app.bridge.poller import Poller
from torchdeck_app.launch.files.disk import Stamp, stamp_of

INTERVAL = 1.0
"""Seconds between two looks."""


@dataclass(frozen=True)
class Seen:
    """What there was at a look."""

    path: Path | None
    stamp: Stamp | None
    """None where there is no file."""
    error: str = ""
    turn: int = 0
    """How often it was said where to look: what there is is told each time, seen before or not."""


class FileWatch(Poller[Seen]):
    """`changed` tells what there is; `watch` says where to look."""

    def __init__(self, parent: QObject | None = None, interval: float = INTERVAL) -> None:
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._turn = 0
        super().__init__("watching the run file", self._seen, interval, parent)

    def watch(self, path: Path | None) -> None:
        """Look at `path` from now on, and tell what there is; None: at nothing."""
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
