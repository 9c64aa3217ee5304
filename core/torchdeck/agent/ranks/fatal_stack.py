"""Stack of a rank that crashed, as faulthandler wrote it to standard error."""

from __future__ import annotations

import re
from typing import NamedTuple

_FATAL = re.compile(r"^Fatal Python error: (?P<what>.+)$", re.MULTILINE)
_CURRENT = re.compile(r"^Current thread .*\(most recent call first\):$", re.MULTILINE)
_FRAME = re.compile(r'^  File "(?P<file>[^"]*)", line (?P<line>\d+|\?\?\?) in (?P<name>.+)$')
_MOST_FRAMES = 100
"""As many as faulthandler writes of a thread."""


class FatalStack(NamedTuple):
    """Stack of the thread that crashed."""

    what: str
    """`Segmentation fault`."""
    frames: tuple[tuple[str, str, str], ...]
    """(file, line, function), the innermost first."""

    @property
    def place(self) -> str:
        """The innermost line, such as `decode (decode.py:12)`; empty if Python executed none."""
        if not self.frames:
            return ""
        file, line, name = self.frames[0]
        return f"{name} ({file.rpartition('/')[2]}:{line})"

    @property
    def traceback(self) -> str:
        """The stack as Python prints tracebacks, with the innermost line last."""
        if not self.frames:
            return ""
        lines = [f'  File "{file}", line {line}, in {name}\n' for file, line, name in reversed(self.frames)]
        return f"Stack of the crash (most recent call last):\n{''.join(lines)}Fatal Python error: {self.what}"


def without_fatal(text: str) -> str:
    """Return a log up to the last crash that faulthandler reports in it."""
    found = list(_FATAL.finditer(text))
    return text[: found[-1].start()] if found else text


def fatal_stack(text: str) -> FatalStack | None:
    """Return the last crash in the end of a log; None if there is none.

    Format: faulthandler's, Python 3.10 to 3.14 (the C stack of 3.14 is left out).
    """
    crashes = list(_FATAL.finditer(text))
    if not crashes:
        return None
    found = crashes[-1]
    current = _CURRENT.search(text, found.end())
    frames = []
    for line in text[current.end() + 1 :].splitlines()[:_MOST_FRAMES] if current else ():
        frame = _FRAME.match(line)
        if frame is None:
            break
        frames.append((frame["file"], frame["line"], frame["name"]))
    return FatalStack(found["what"], tuple(frames))
