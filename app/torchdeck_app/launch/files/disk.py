"""Run file on disk: tolerant reading, and writing that changes only its content."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from torchdeck.config.sources import MAX_BYTES
from torchdeck.contract.atomic import write_bytes
from torchdeck.contract.refusal import Refusal
from torchdeck.quantities import size


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
        raise FileError(f"{path} is not there: it was moved or deleted") from None
    except OSError as error:
        raise FileError(f"{path} cannot be read ({error.strerror}): choose a file you may read") from error
    if b"\0" in content:
        raise FileError(f"{path} is no text: choose a run file or a script")
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
