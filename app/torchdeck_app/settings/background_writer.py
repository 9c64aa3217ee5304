"""Writing small files off the GUI thread: of several versions of a file only the newest."""

from __future__ import annotations

import threading
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from torchdeck.contract.atomic import write_bytes

RETRY = 5.0
"""Seconds after which what could not be written is tried again."""


class BackgroundWriter(QObject):
    """One thread that writes whole files, however slow the disk is. A file is replaced in one step."""

    failed = Signal(str)
    """A sentence: what could not be written and why. Once until that file can be written again."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._wake = threading.Condition()
        self._waiting: dict[Path, str] = {}
        self._is_writing = False
        self._closed = False
        self._failed: dict[Path, str] = {}
        """What could not be written, for another try."""
        self._said: set[Path] = set()
        self._thread: threading.Thread | None = None

    def write(self, path: Path, text: str) -> None:
        """Replace `path` by `text` soon; what waited to be written there is dropped."""
        with self._wake:
            self._waiting[path] = text
            self._wake.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kept files", daemon=True)
            self._thread.start()

    def close(self, seconds: float) -> bool:
        """Wait until all is written, `seconds` at most; whether it is. Nothing is written afterwards.

        What could not be written before is tried once more.
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
        """With the lock held."""
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
