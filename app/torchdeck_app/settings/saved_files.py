"""Small files of the window, read with care and written off the GUI thread."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from PySide6.QtCore import QObject, Signal

from torchdeck.contract.atomic import write_bytes
from torchdeck.contract.bounded_file import read_bounded
from torchdeck.contract.bounded_json import JsonError, parse_json

RETRY = 5.0
"""Seconds between retries of failed writes."""


class BackgroundWriter(QObject):
    """Thread that writes whole files, however slow the disk is. Each file is replaced atomically."""

    failed = Signal(str)
    """Emitted with a sentence: which file could not be written and why. Once until that file can be written
    again.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._wake = threading.Condition()
        self._waiting: dict[Path, str] = {}
        self._is_writing = False
        self._closed = False
        self._failed: dict[Path, str] = {}
        """Content that could not be written, for a retry."""
        self._said: set[Path] = set()
        self._thread: threading.Thread | None = None

    def write(self, path: Path, text: str) -> None:
        """Replace `path` by `text` soon; a pending version is dropped."""
        with self._wake:
            self._waiting[path] = text
            self._wake.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kept files", daemon=True)
            self._thread.start()

    def close(self, seconds: float) -> bool:
        """Wait until all is written, at most `seconds`; return whether it is. Nothing is written afterwards.

        Failed writes are retried once.
        """
        with self._wake:
            self._try_again()
            self._wake.notify_all()
            done = self._wake.wait_for(lambda: not self._waiting and not self._is_writing, seconds)
            self._closed = True
            self._wake.notify_all()
            return done and not self._failed

    def _run(self) -> None:
        while True:
            with self._wake:
                self._is_writing = False
                self._wake.notify_all()
                while not self._closed and not self._waiting:
                    if not self._wake.wait(RETRY if self._failed else None):
                        self._try_again()
                if self._closed:
                    return
                path = next(iter(self._waiting))
                text = self._waiting.pop(path)
                self._failed.pop(path, None)  # older
                self._is_writing = True
            self._write(path, text)

    def _try_again(self) -> None:
        """Retry failed writes; the caller holds the lock."""
        self._waiting = {**self._failed, **self._waiting}

    def _write(self, path: Path, text: str) -> None:
        try:
            write_bytes(path, text.encode(), private=True)
        except OSError as error:
            with self._wake:
                self._failed[path] = text
            if path not in self._said:
                self._said.add(path)
                self.failed.emit(f"{path} cannot be written ({error.strerror}): changes to it are not kept.")
        else:
            self._said.discard(path)


# Small JSON files that persist window state: read with care; unreadable ones are renamed.

_LARGEST = 32 << 20
"""Maximum size in bytes; unsaved texts are included."""
_ASIDE = 100
"""Maximum number of names tried for a renamed file."""


class Kept(NamedTuple):
    """Content of a file."""

    value: Mapping[str, Any] = MappingProxyType({})
    """Empty if there was no file or no usable one."""
    said: str = ""
    """Why it was not used, and its new location; else empty."""


def read_kept(path: Path, version: int) -> Kept:
    """Return the table in `path`; a damaged file or one of a newer version is renamed and left alone.

    Args:
        path: a JSON file whose `version` determines how to read it.
        version: the newest supported version.
    """
    try:
        text = read_bounded(path, _LARGEST)
    except FileNotFoundError:
        return Kept()
    except OSError as error:
        return Kept(said=f"{path} cannot be read ({error.strerror}), so the window starts with defaults.")
    try:
        value = parse_json(text)
    except JsonError:
        return Kept(said=_set_aside(path, "is damaged"))
    if not isinstance(value, dict) or type(value.get("version")) is not int:
        return Kept(said=_set_aside(path, "is damaged"))
    if value["version"] > version:
        return Kept(said=_set_aside(path, "was written by a newer Torchdeck"))
    return Kept(value)


def _set_aside(path: Path, what: str) -> str:
    beside = (path.with_name(f"{path.name}.kept{number or ''}") for number in range(_ASIDE))
    aside = next((name for name in beside if not name.exists()), None)
    if aside is None:
        return (
            f"{path} {what}, so the window starts with defaults; {_ASIDE} such files are next to it already."
        )
    try:
        path.rename(aside)
    except OSError as error:
        why = f"it could not be renamed ({error.strerror})"
        return f"{path} {what}, so the window starts with defaults; {why}."
    return f"{path} {what}, so the window starts with defaults; the file is now {aside.name}."
