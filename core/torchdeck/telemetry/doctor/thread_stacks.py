"""Python stacks of all threads of this process, written by faulthandler.

`faulthandler.dump_traceback` walks all threads in C and keeps the GIL. A loop over the frame objects of
another thread (`sys._current_frames`, `f_back`) lets that thread run in between: a process on Python 3.11
crashed in it. Without the GIL (free-threaded Python) faulthandler does not hold the threads, and no stack is
read.
"""

from __future__ import annotations

import faulthandler
import os
import re
import sys
import threading
from collections.abc import Callable
from typing import NamedTuple

INNERMOST, OUTERMOST = 48, 16
"""Numbers of frames that are read per thread.

Of a deeper stack the middle is left out; faulthandler writes the innermost 100.
"""
_HEADER = re.compile(r"^(?:Current t|T)hread 0x([0-9a-f]+)", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.*)", line (\d+|\?\?\?) in (.*)$', re.MULTILINE)
_ESCAPED = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")
"""How faulthandler writes a character that is not ASCII."""


class Place(NamedTuple):
    """One frame."""

    file: str
    line: int
    """0: unknown."""
    function: str
    calls: bool = False
    """It is in a call: of a function in C, if it is the innermost frame."""


def has_gil() -> bool:
    """Return whether a thread that has the GIL stops all others: not on free-threaded Python."""
    enabled: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
    return enabled()


class ThreadStacks:
    """Reads the stacks of this process's threads: the newest 100, which is what faulthandler writes; none
    without the GIL.
    """

    def __init__(self) -> None:
        """Make the file in memory that faulthandler writes into.

        Raises:
            OSError: no file descriptor is left.
        """
        self._file = os.memfd_create("torchdeck-stacks", os.MFD_CLOEXEC)

    def main_thread(self) -> list[Place]:
        """Return the main thread's frames, innermost first; empty if there are 100 newer threads."""
        ident = threading.main_thread().ident or 0
        header = f"hread 0x{ident:0{_ident_digits()}x} "
        begin = (text := self._dump()).rfind(header)
        return [] if begin < 0 else parse_stacks(f"T{text[begin:]}").get(ident, [])

    def all_threads(self) -> dict[int, list[Place]]:
        """Return every thread's frames by its ident."""
        return parse_stacks(self._dump())

    def _dump(self) -> str:
        if not has_gil():
            return ""
        os.lseek(self._file, 0, os.SEEK_SET)
        faulthandler.dump_traceback(self._file, all_threads=True)
        length = os.lseek(self._file, 0, os.SEEK_CUR)
        return os.pread(self._file, length, 0).decode("ascii", "replace")


def parse_stacks(text: str) -> dict[int, list[Place]]:
    """Return ident → frames, innermost first, of what `faulthandler.dump_traceback` has written."""
    headers = list(_HEADER.finditer(text))
    if not headers:
        return {}
    ends = [header.start() for header in headers[1:]] + [len(text)]
    return {
        int(header[1], 16): [
            Place(_unescaped(file), int(line) if line.isdigit() else 0, _unescaped(function))
            for file, line, function in _ends(_FRAME.findall(text, header.end(), end))
        ]
        for header, end in zip(headers, ends, strict=True)
    }


def _ends(frames: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    left_out = max(0, len(frames) - INNERMOST - OUTERMOST)
    return frames[:INNERMOST] + frames[INNERMOST + left_out :]


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1] or found[2] or found[3], 16)), text)


def _ident_digits() -> int:
    return 16 if sys.maxsize > 1 << 32 else 8
