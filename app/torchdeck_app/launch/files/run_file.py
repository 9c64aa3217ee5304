"""Run file on disk: tolerant reading, careful writing, and a watch for external changes."""

from __future__ import annotations

import os
import stat
import threading
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject

from torchdeck.config.sources import MAX_BYTES
from torchdeck.config.toml.merge import Merge, MergeError, merge
from torchdeck.contract.atomic import write_bytes
from torchdeck.contract.refusal import Refusal
from torchdeck.quantities import size
from torchdeck_app.bridge.background_loop import Poller


class FileError(Refusal):
    """A file cannot be opened or saved; the message has the file, the reason and the fix."""


@dataclass(frozen=True)
class Stamp:
    """Fingerprint to detect changes of a file."""

    modified: int
    """Modification time in nanoseconds."""
    size: int
    inode: int


@dataclass(frozen=True)
class DiskText:
    """Text read from a file."""

    path: Path
    """Absolute path."""
    text: str
    """Lines end with \\n."""
    stamp: Stamp
    newline: str
    """Line ending on disk."""
    damage: str = ""
    """Why it must not be overwritten: the text contains U+FFFD for undecodable bytes."""


def stamp_of(path: Path) -> Stamp | None:
    """Return the file's fingerprint; None if it does not exist.

    Raises:
        OSError: it cannot be accessed.
    """
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Stamp(found.st_mtime_ns, found.st_size, found.st_ino)


def read_text(path: Path) -> DiskText:
    """Read the file's text, whether it is TOML or not.

    Raises:
        FileError: it does not exist, is not readable, or is too long to be a run file.
    """
    path = path.absolute()
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise FileError(f"{path} is not a file: choose a run file or a script")
        if found.st_size > MAX_BYTES:
            raise FileError(f"{path} has {size(found.st_size)}: a run file has {size(MAX_BYTES)} at most")
        content = path.read_bytes()
    except FileNotFoundError:
        raise FileError(f"{path} does not exist: it was moved or deleted") from None
    except OSError as error:
        raise FileError(f"{path} cannot be read ({error.strerror}): choose a file you can read") from error
    if b"\0" in content:
        raise FileError(f"{path} is not a text file: choose a run file or a script")
    stamp = Stamp(found.st_mtime_ns, len(content), found.st_ino)
    try:
        text, damage = content.decode("utf-8"), ""
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        text = content.decode("utf-8", "replace")
        damage = f"line {line} is not UTF-8, as TOML requires: save it as UTF-8 with the editor that wrote it"
    crlf = text.count("\r\n")
    newline = "\r\n" if crlf * 2 > text.count("\n") else "\n"
    return DiskText(path, text.replace("\r\n", "\n"), stamp, newline, damage)


def write_text(path: Path, text: str, newline: str = "\n") -> Stamp:
    """Replace the file atomically; its mode, and a link to it, stay.

    Raises:
        FileError: it cannot be written; the old file is then unchanged.
    """
    target = Path(os.path.realpath(path))
    content = text.replace("\n", newline).encode("utf-8", "surrogateescape")
    try:
        mode = _mode(target)
        if mode is not None and not os.access(target, os.W_OK):
            raise FileError(f"{path} is read-only: make it writable, or save under another name")
        write_bytes(target, content, mode=mode)
        found = target.stat()
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(f"{path} cannot be written ({reason}): save it in another folder") from error
    return Stamp(found.st_mtime_ns, found.st_size, found.st_ino)


def _mode(target: Path) -> int | None:
    """Return the permissions of an existing file."""
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        return None


# External changes of the open file, and saving that never overwrites them without confirmation.


class ChangedError(FileError):
    """The file has changed since it was read; saving would overwrite the change."""


@dataclass(frozen=True)
class DiskChange:
    """Change of the file while it was open."""

    path: Path
    disk: DiskText | None
    """Its current content; None if it is gone."""
    is_edited: bool
    """Whether the document has changes of its own."""
    saving: bool = False
    """Whether it was detected by a save, which was not done."""


def write(path: Path, text: str, newline: str) -> DiskText:
    """Write the file regardless of its content; raises FileError."""
    return DiskText(path, text, write_text(path, text, newline), newline)


def write_unless_changed(path: Path, text: str, newline: str, base: DiskText | None) -> DiskText:
    """Write the file if it is still as in `base`; None: if it does not exist.

    Raises:
        ChangedError: it is not.
        FileError: it cannot be written.
    """
    there = stamp_of(path)
    if there is not None and (base is None or there != base.stamp):
        raise ChangedError(f"{path.name} is not saved: the file was changed by someone else")
    return write(path, text, newline)


def unseen(path: Path, text: str, newline: str) -> DiskText:
    """Return an earlier state of the file with a fingerprint that never matches, so that changes since are
    reported.
    """
    return DiskText(path, text, Stamp(0, 0, 0), newline)


def merged(base: DiskText | None, mine: str, disk: DiskText) -> Merge:
    """Merge both changes of `base`.

    Raises:
        MergeError: they cannot be separated by key, or have different bases.
    """
    if base is None:
        raise MergeError("there is no common earlier version")
    return merge(base.text, mine, disk.text)


# Watch for changes of the open file on disk, off the GUI thread.
#
# It compares time and size: file system notifications miss changes made through a network drive.

INTERVAL = 1.0
"""Seconds between two looks."""


@dataclass(frozen=True)
class Seen:
    """Result of a poll."""

    path: Path | None
    stamp: Stamp | None
    """None if there is no file."""
    error: str = ""
    turn: int = 0
    """Number of calls of `watch`, each of which causes a report even if nothing has changed."""


class FileWatch(Poller[Seen]):
    """Poller of a file: `changed` reports its state; `watch` sets the path."""

    def __init__(self, parent: QObject | None = None, interval: float = INTERVAL) -> None:
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._turn = 0
        super().__init__("watching the run file", self._seen, interval, parent)

    def watch(self, path: Path | None) -> None:
        """Watch `path` from now on and report its state; None: nothing."""
        with self._lock:
            self._path = path
            self._turn += 1
        self.poke()

    def _seen(self) -> Seen:
        with self._lock:
            path, turn = self._path, self._turn
        if path is None:
            return Seen(None, None)
        try:
            return Seen(path, stamp_of(path), turn=turn)
        except OSError as error:
            return Seen(path, None, error.strerror or str(error), turn)
