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
    """Whether `error` is what writing to a closed pipe or a closed terminal gives."""
    return error.errno in (errno.EPIPE, errno.EIO)


def silence() -> None:
    """Send what is still in buffers nowhere: the interpreter would complain about it at its end."""
    with suppress(OSError, ValueError):
        sink = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(sink, stream.fileno())
