"""One line on standard error that says what is waited for, and goes when it is over."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

TRACING = "tracing the model"
WIDEST = 79


@contextlib.contextmanager
def progress_line(what: str) -> Iterator[Callable[[str], None]]:
    """A function that shows how `what` goes: in place on a terminal; elsewhere `what` is said, once."""
    in_place = sys.stderr.isatty()
    drawn: list[str] = []

    def say(text: str) -> None:
        line = f"{what}: {text}"[:WIDEST] if in_place else f"torchdeck: {what}"
        if in_place:
            sys.stderr.write(f"\r{line:<{WIDEST}}")
        elif not drawn:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
        drawn.append(line)

    try:
        yield say
    finally:
        if in_place and drawn:
            sys.stderr.write("\r" + " " * WIDEST + "\r")
            sys.stderr.flush()
