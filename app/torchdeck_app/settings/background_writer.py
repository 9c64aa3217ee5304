"""Writing of small files off the GUI thread: only the newest version of a file is written."""

from __future__ import annotations

import threading
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from torchdeck.contract.atomic import write_bytes

RETRY = 5.0
"""Seconds between retries of failed writes."""


class BackgroundWriter(QObject):
    """Thread that writes whole files, however slow the disk is. Each file is replaced atomically."""

    failed = Signal(str)
    """Emitted with a sentence: which file could not be written and why. Once until that file can be written
    again.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._wake = threading.Condition()
        self._waiting: dict[Path, str] = {}
        self._is_writing = False
        self._closed = False
        self._failed: dict[Path, str] = {}
        """Content that could not be written, for a retry."""
        self._said: set[Path] = set()
        self._thread: threading.Thread | None = None

    def write(self, path: Path, text: str) -> None:
        """Replace `path` by `text` soon; a pending version is dropped."""
        with self._wake:
            self._waiting[path] = text
            self._wake.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kept files", daemon=True)
            self._thread.start()

    def close(self, seconds: float) -> bool:
        """Wait until all is written, at most `seconds`; return whether it is. Nothing is written afterwards.

        Failed writes are retried once.
        """
        with self._wake:
            self._try_again()
            self._wake.notify_all()
            done = self._wake.wait_for(lambda: not self._waiting and not self._is_writing, seconds)
            self._closed = True
            self._wake.notify_all()
            return done and not self._failed

    def _run(self) -> None:
        while True:
            with self._wake:
                self._is_writing = False
                self._wake.notify_all()
                while not self._closed and not self._waiting:
                    if not self._wake.wait(RETRY if self._failed else None):
                        self._try_again()
                if self._closed:
                    return
                path = next(iter(self._waiting))
                text = self._waiting.pop(path)
                self._failed.pop(path, None)  # older
                self._is_writing = True
            self._write(path, text)

    def _try_again(self) -> None:
        """Retry failed writes; the caller holds the lock."""
        self._waiting = {**self._failed, **self._waiting}

    def _write(self, path: Path, text: str) -> None:
        try:
            write_bytes(path, text.encode(), private=True)
        except OSError as error:
            with self._wake:
                self._failed[path] = text
            if path not in self._said:
                self._said.add(path)
                self.failed.emit(f"{path} cannot be written ({error.strerror}): changes to it are not kept.")
        else:
            self._said.discard(path)
