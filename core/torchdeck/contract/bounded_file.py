"""Files that others wrote, or that they merely named: read without blocking, and up to a size.

Opening a named pipe waits for a writer, reading a device may never end, and files that the kernel makes up
(/proc) claim to be empty. Each is refused at once with the reason.
"""

from __future__ import annotations

import io
import os
import stat

from torchdeck.contract.refusal import Refusal

_KINDS = (
    (stat.S_ISDIR, "is a folder"),
    (stat.S_ISFIFO, "is a named pipe (FIFO)"),
    (stat.S_ISSOCK, "is a socket"),
    (stat.S_ISCHR, "is a character device"),
    (stat.S_ISBLK, "is a block device"),
)


class UnreadableFileError(Refusal, OSError, ValueError):
    """It is too large, or no regular file; the message says which.

    Attributes:
        why: the message without the path, as in "is a named pipe (FIFO), not a regular file".
    """

    is_usage = True

    def __init__(self, path: str | os.PathLike[str], why: str) -> None:
        super().__init__(os.fspath(path), why)
        self.strerror = why  # for those who say it of any OSError

    @property
    def finding(self) -> str:
        return f"{self.what} {self.why}"


def open_regular(path: str | os.PathLike[str]) -> io.BufferedReader:
    """The regular file at `path`, open for reading.

    Args:
        path: symbolic links are followed.

    Raises:
        OSError: it cannot be opened.
        UnreadableFileError: it is no regular file; it was not waited for.
    """
    _check(path, os.stat(path))  # noqa: PTH116 - opening a device can already have an effect
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    descriptor = os.open(path, flags)
    try:
        _check(path, os.fstat(descriptor))  # it may have been replaced since
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def read_bounded(path: str | os.PathLike[str], limit: int) -> bytes:
    """The content of the regular file at `path`.

    Args:
        path: symbolic links are followed.
        limit: bytes that it may have at most. No more is read, even if its size says less (as in /proc).

    Raises:
        OSError: it cannot be opened or read.
        UnreadableFileError: it is longer than `limit`, no regular file, or made up by the kernel.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = b"" if size > limit else file.read(limit + 1)
    if content and not size:
        raise UnreadableFileError(path, "is made up by the kernel as it is read, as in /proc")
    if size > limit or len(content) > limit:
        raise UnreadableFileError(path, f"is too large: more than {_units(limit)}")
    return content


def why_unreadable(path: str | os.PathLike[str]) -> str:
    """Why the file at `path` cannot be read, as the end of a sentence; empty if it can be, or is absent."""
    try:
        open_regular(path).close()
    except FileNotFoundError:
        return ""
    except UnreadableFileError as error:  # which is an OSError, too
        return error.why
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return ""


def _check(path: str | os.PathLike[str], status: os.stat_result) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    kind = next((kind for is_kind, kind in _KINDS if is_kind(status.st_mode)), "is no file")
    raise UnreadableFileError(path, f"{kind}, not a regular file")


def _units(limit: int) -> str:
    if limit >= 2**20:
        return f"{limit / 2**20:g} MiB"
    return f"{limit / 2**10:g} KiB" if limit >= 2**10 else f"{limit} bytes"
