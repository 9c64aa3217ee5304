"""Standard error of a supervisor: a log file on a disk that may be full, which must not end its writer."""

from __future__ import annotations

import contextlib
import io
import os
import sys


class LogStream(io.TextIOBase):
    """Stream that writes text to a descriptor at once, and drops what cannot be written."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, text: str) -> int:
        """Write text; always return `len(text)`."""
        with contextlib.suppress(OSError):
            os.write(self._descriptor, text.encode("utf-8", "backslashreplace"))
        return len(text)

    def fileno(self) -> int:
        return self._descriptor

    def writable(self) -> bool:
        return True


def log_to_standard_error() -> None:
    """Make all later output of this process unable to fail."""
    sys.stderr = LogStream(2)
