"""How far something long is, on standard error: in place on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from torchdeck.cli.output import unguarded
from torchdeck.shown_text import shown

AFTER = 1.0
"""Seconds before anything is printed: a short wait is not worth a line."""
EVERY = {True: 0.2, False: 5.0}
"""Seconds between two reports, on a terminal and elsewhere."""


class ProgressLine:
    """Call it with what is done, how much, and out of how much; `end` clears the line."""

    def __init__(self, stream: TextIO | None = None, number: Callable[[int], str] = "{:,}".format) -> None:
        """Nothing is shown yet.

        Args:
            stream: where to; default: standard error.
            number: how amounts are written.
        """
        self._number = number
        self._stream = unguarded(sys.stderr if stream is None else stream)
        self._in_place = self._stream.isatty()
        self._next = time.monotonic() + AFTER
        self._shown = 0

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + EVERY[self._in_place]
        share = f" ({100 * done // total} %)" if total else ""
        text = shown(f"{what}: {self._number(done)} of {self._number(total)}{share}")
        if self._in_place:
            self._stream.write("\r" + text.ljust(self._shown))
            self._shown = len(text)
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def end(self) -> None:
        """Leave an empty line."""
        if self._shown:
            self._stream.write("\r" + " " * self._shown + "\r")
            self._stream.flush()
            self._shown = 0
