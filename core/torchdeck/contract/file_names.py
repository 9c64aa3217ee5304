"""Names of files, which are bytes, as text that JSON can hold and that converts back to the same bytes."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_ESCAPE = re.compile(r"\\(\\|x[0-9a-f]{2})")


def text_of(name: str) -> str:
    r"""A name as `os.fsdecode` gives it, as text: bytes that are no UTF-8 as `\xNN`, a backslash twice."""
    if name.isascii() and "\\" not in name:
        return name
    return os.fsencode(name).replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def name_of(text: str) -> str:
    """Invert `text_of`.

    Raises:
        ValueError: no name has this text.
    """
    if "\\" not in text:
        return text
    raw = b""
    end = 0
    for match in _ESCAPE.finditer(text):
        raw += text[end : match.start()].encode("utf-8")
        raw += b"\\" if match.group(1) == "\\" else bytes.fromhex(match.group(1)[1:])
        end = match.end()
    name = os.fsdecode(raw + text[end:].encode("utf-8"))
    if text_of(name) != text:
        raise ValueError(f"{text!r} is the text of no file's name")
    return name


def checked_name(text: str) -> str:
    """Return the name of `text`, if it stays below the folder it is put in.

    Raises:
        ValueError: it is empty or absolute, or leads outside.
    """
    name = name_of(text)
    if "\0" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise ValueError(f"{text!r} is not the name of a file below a folder")
    return name


# Names in folders that are polled often and change rarely.

YOUNG = 2.0
"""Seconds after which a new name changes a folder's time again, however coarse its file system."""
AGAIN = 10.0
"""Seconds after which a folder is listed anyway: not every file system reports that a folder has changed."""


class _Listed(NamedTuple):
    names: tuple[str, ...]
    changed: int
    """Nanoseconds, as the file system reports; compared with nothing but itself."""
    since: float
    """When this modification time was first seen. Monotonic, as is `at`."""
    at: float


class FolderNames:
    """Folder listing, repeated only if the modification time differs: checking costs a tenth. For one thread.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._listed: dict[Path, _Listed] = {}

    def __call__(self, folder: Path) -> tuple[str, ...]:
        """Return the names in `folder`, sorted; none if there is no such folder.

        Raises:
            OSError: it cannot be listed.
        """
        try:
            now, changed = self._clock(), folder.stat().st_mtime_ns
            known = self._listed.get(folder)
            if known is None or known.changed != changed:
                since = now
            elif known.at - known.since > YOUNG and now - known.at < AGAIN:
                return known.names
            else:
                since = known.since
            # strings: this is called repeatedly for many folders
            names = tuple(sorted(os.listdir(folder)))  # noqa: PTH208
        except (FileNotFoundError, NotADirectoryError):
            self._listed.pop(folder, None)
            return ()
        self._listed[folder] = _Listed(names, changed, since, now)
        return names
