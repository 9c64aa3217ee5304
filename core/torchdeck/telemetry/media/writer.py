"""Appends images, texts, histograms and tables to a file of this process."""

from __future__ import annotations

import os
import secrets
import threading
import time
import weakref
from pathlib import Path

from torchdeck.contract.metrics.media_format import (
    FILE_LIMIT,
    MEDIA_SUFFIX,
    MediaError,
    MediaHead,
    encode_file_header,
    encode_record,
)
from torchdeck.telemetry.media.values import Media

MOST_FILES = 16
"""Files of one process: another one begins after a write that failed."""


class MediaWriter:
    """Writes records to a folder, whole or not at all.

    One record is one `write` to the end of a file. If it fails, another file begins with the next record, so
    that nothing follows a cut one. Threads and forked children (which write files of their own) may write at
    any moment.
    """

    def __init__(self, folder: Path) -> None:
        """Make a writer; folder and file are created with the first record."""
        self._folder = folder
        self._begin_incarnation()
        restart = weakref.WeakMethod(self._begin_incarnation)
        os.register_at_fork(after_in_child=lambda: (method := restart()) and method())

    def _begin_incarnation(self) -> None:
        self._lock = threading.RLock()
        self._file: int | None = None
        self._files = 0
        self._size = 0
        self._incarnation = f"log-{os.getpid()}-{time.time_ns()}-{secrets.token_hex(4)}"

    def write(self, name: str, value: Media, step: int) -> None:
        """Append one record.

        Raises:
            MediaError: the value is not of its kind or too large, or there is too much already.
            OSError: it cannot be written.
        """
        head = MediaHead(name, value.kind, step, time.time(), value.caption)
        record = encode_record(head, value.encode())
        with self._lock:
            if self._size + len(record) > FILE_LIMIT:
                raise MediaError(
                    f"there are {FILE_LIMIT >> 20} MiB already: this and later ones are left out"
                )
            file = self._opened()
            written = 0
            try:
                written = os.write(file, record)
            finally:
                self._size += written
                if written != len(record):
                    self._end_file()
            if written != len(record):
                raise OSError(f"only {written} of {len(record)} bytes could be written")

    def close(self) -> None:
        """Close the file. A later `write` begins another one."""
        with self._lock:
            self._end_file()

    def _opened(self) -> int:
        if self._file is not None:
            return self._file
        if self._files >= MOST_FILES:
            raise MediaError(f"writing has failed {MOST_FILES} times: this and later ones are left out")
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._folder / f"{self._incarnation}-{self._files}{MEDIA_SUFFIX}"
        self._files += 1
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        header = encode_file_header(time.time())
        if os.write(self._file, header) != len(header):
            self._end_file()
            raise OSError(f"{path} could not be begun")
        return self._file

    def _end_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
