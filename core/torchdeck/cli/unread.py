"""Output without a reader: a pipe to `head`, a closed terminal."""

from __future__ import annotations

import errno
import os
import signal
import sys
from contextlib import suppress

EXIT_CODE = 128 + signal.SIGPIPE
"""Exit code of a process that a write to a closed pipe ended, as shells report it."""


def is_unread(error: OSError) -> bool:
    """Return whether `error` comes from writing to a closed pipe or a closed terminal."""
    return error.errno in (errno.EPIPE, errno.EIO)


def silence() -> None:
    """Discard buffered output: the interpreter would complain about it at exit."""
    with suppress(OSError, ValueError):
        sink = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(sink, stream.fileno())
