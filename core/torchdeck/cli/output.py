"""Standard output and standard error that are safe from untrusted text, see `torchdeck.shown_text`.

`guard` installs them instead of Python's, so that all that commands print passes through the sanitiser.
Cursor control written by the commands themselves bypasses it, by `unguarded`.
"""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from torchdeck.shown_text import shown, shown_json, shown_log


class SafeStream(io.TextIOBase):
    """Text stream that sanitises what it writes to another stream."""

    def __init__(self, stream: TextIO) -> None:
        """Wrap `stream`, which stays open."""
        super().__init__()
        self.stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed has a plain attribute
        """As in the other stream."""
        return self.stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]  # the same
        """As in the other stream."""
        return self.stream.errors

    def write(self, text: str, /) -> int:
        """Write `text` without what must not be shown; return the number of its characters."""
        self.stream.write(shown(text))
        return len(text)

    def flush(self) -> None:
        """Flush the other stream."""
        self.stream.flush()

    def isatty(self) -> bool:
        """Return whether the other stream is a terminal."""
        return self.stream.isatty()

    def fileno(self) -> int:
        """As in the other stream."""
        return self.stream.fileno()

    def writable(self) -> bool:
        """Return True."""
        return True


@contextmanager
def guard() -> Iterator[None]:
    """Make standard output and error safe in the block, and after an error in it, which Python prints."""
    before = sys.stdout, sys.stderr
    safe = [stream if stream is None else cast("Any", SafeStream(stream)) for stream in before]
    sys.stdout, sys.stderr = safe
    try:
        yield
    except SystemExit:
        sys.stdout, sys.stderr = before
        raise
    sys.stdout, sys.stderr = before


def unguarded(stream: TextIO) -> TextIO:
    """Return the stream behind `stream`: for our own control characters around text that is safe already."""
    return stream.stream if isinstance(stream, SafeStream) else stream


def write_log_line(head: str, text: str, stream: TextIO) -> None:
    """Write a line that a rank printed, with the colours that ranks may use; `head` comes before it."""
    unguarded(stream).write(f"{shown(head)}{shown_log(text, colours=True)}\n")


def write_document(text: str) -> None:
    """Write output for other programs, such as a script: exact if it goes to a file, safe on a terminal."""
    (sys.stdout if sys.stdout.isatty() else unguarded(sys.stdout)).write(text)


# Output without a reader: a pipe to `head`, a closed terminal.

BROKEN_PIPE_EXIT = 128 + signal.SIGPIPE
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


def json_text(value: Any, **options: Any) -> str:
    """`value` as JSON in UTF-8, in which what must not be shown on a terminal is escaped.

    Args:
        value: of plain values.
        options: of `json.dumps`.
    """
    return shown_json(json.dumps(value, **{"ensure_ascii": False, **options}))


# Exit codes of the commands.

SUCCEEDED = 0
RUN_FAILED = 1
USAGE = 2
"""A bad config, a bad command line, or a run that does not exist."""
REFUSED = 3
"""Nothing was started."""
STOPPED = 130
"""By the user."""
