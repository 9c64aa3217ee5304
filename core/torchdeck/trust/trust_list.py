"""`trusted.json`: folders and files whose code the user has said may run.

A folder is trusted with all that is and will be below it; a file as it is, by its content. Both are asked for
again after their owner or mode has changed, and none counts that others can write.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.rundir.atomic import read_json, write_json
from torchdeck.rundir.lock_file import try_lock
from torchdeck.trust.writers import Writers, other_writers

FILE_NAME = "trusted.json"
MOST_BYTES = 8 << 20
"""Of a file that is trusted by its content."""
LOCK_LIMIT = 10.0
"""Seconds to wait for another process that changes the list."""
_VERSION = 2


class TrustError(Exception):
    """Something cannot be trusted, or the list cannot be used; the message says why and what would help."""


class Condition(StrEnum):
    """How what is in the list stands now."""

    TRUSTED = "trusted"
    CHANGED = "asked for again"
    WRITABLE = "does not count"
    """Others can write it."""
    GONE = "gone"


class State(NamedTuple):
    """Whether an entry counts now."""

    condition: Condition
    why: str = ""
    """A sentence without its full stop; empty if it counts."""

    def __str__(self) -> str:
        return f"{self.condition}: {self.why}" if self.why else str(self.condition)


@dataclass(frozen=True)
class Trusted:
    """One folder or file, and what it was like when it was trusted."""

    path: str
    """Without symbolic links."""
    owner: int | None = None
    """User number; None in a list of the first version, which did not say it."""
    mode: int | None = None
    content: str = ""
    """SHA-256 of a file; empty for a folder."""

    def change(self) -> str:
        """What has changed since; empty if nothing has."""
        try:
            found = os.stat(self.path, follow_symlinks=False)  # noqa: PTH116 - a text
            content = _content(Path(self.path)) if self.content else ""
        except (OSError, TrustError):
            return "it is not there any more, or cannot be read"
        if self.owner not in (None, found.st_uid):
            return f"its owner has changed (user {self.owner}, now {found.st_uid})"
        if self.mode not in (None, stat.S_IMODE(found.st_mode)):
            return f"its mode has changed ({self.mode:o}, now {stat.S_IMODE(found.st_mode):o})"
        return "its content has changed" if content != self.content else ""

    def state(self) -> State:
        """Whether it counts now, and why not."""
        try:
            writers = other_writers(Path(self.path))
        except OSError:
            return State(Condition.GONE, "it is not there any more")
        if writers is not None:
            return State(Condition.WRITABLE, writers.what)
        change = self.change()
        return State(Condition.CHANGED, change) if change else State(Condition.TRUSTED)


class Standing(NamedTuple):
    """Whether something may run."""

    trusted: bool
    never: Writers | None = None
    """Why it cannot be trusted as it is: others can write it."""
    changed: str = ""
    """Why it is asked for again; empty if it was never trusted."""


class TrustList:
    """The list in a Torchdeck home. Read at every call; any process may change it meanwhile.

    Args:
        home: TORCHDECK_HOME.
    """

    def __init__(self, home: Path) -> None:
        self._file = home / FILE_NAME

    def entries(self) -> list[Trusted]:
        """What is trusted, in order; nothing if the list is missing or damaged, which errs on the safe side.

        Raises:
            TrustError: the list was written by a newer Torchdeck, or others can write it.
        """
        try:
            writers = other_writers(self._file)
        except OSError:
            return []
        if writers is not None:
            raise TrustError(f"the list of what is trusted does not count, as {writers}")
        value = read_json(self._file)
        if not isinstance(value, dict):
            return []
        version = value.get("v")
        if isinstance(version, int) and version > _VERSION:
            raise TrustError(f"{self._file} was written by a newer Torchdeck: update Torchdeck")
        if version == 1:
            folders = value.get("folders")
            return [Trusted(path) for path in folders if _is_path(path)] if isinstance(folders, list) else []
        written = value.get("trusted")
        if version != _VERSION or not isinstance(written, list):
            return []
        return [entry for entry in map(_entry, written) if entry is not None]

    def standing(self, path: Path) -> Standing:
        """Whether what lies at `path`, or a folder around it, is trusted; links are followed first.

        Raises:
            TrustError: as `entries`.
        """
        try:
            real = path.resolve(strict=True)
            never = other_writers(path)
        except OSError:
            return Standing(trusted=False)
        if never is not None:
            return Standing(trusted=False, never=never)
        around = {str(place) for place in (real, *real.parents)}
        changes = [entry.change() for entry in self.entries() if entry.path in around]
        if "" in changes:
            return Standing(trusted=True)
        return Standing(trusted=False, changed=changes[0] if changes else "")

    def add(self, path: Path) -> Trusted:
        """Trust a folder, or a file as it is now; one that is in the list already is looked at again.

        Raises:
            TrustError: it is not there, others can write it, or the list cannot be written.
        """
        try:
            entry = _seen(str(path.resolve(strict=True)))
            never = other_writers(path)
        except OSError as error:
            raise TrustError(f"{path} cannot be trusted ({error.strerror}): name what is there") from error
        if never is not None:
            raise TrustError(f"{path} cannot be trusted, as {never}")
        with self._changing() as entries:
            entries[entry.path] = entry
        return entry

    def remove(self, path: Path) -> bool:
        """Trust it no more; whether it was in the list by this path."""
        names = {str(path.resolve()), str(path.absolute())}
        with self._changing() as entries:
            found = [name for name in names if entries.pop(name, None) is not None]
        return bool(found)

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Trusted]]:
        """The entries by path, written when the block ends. Raises TrustError."""
        limit = time.monotonic() + LOCK_LIMIT
        try:
            while (lock := try_lock(self._file.with_name(f".{FILE_NAME}.lock"))) is None:
                if time.monotonic() > limit:
                    raise TrustError(f"another process has been changing {self._file} for {LOCK_LIMIT:g} s")
                time.sleep(0.01)
            try:
                before = {entry.path: entry for entry in self.entries()}
                entries = dict(before)
                yield entries
                if entries != before:
                    written = [asdict(_completed(entries[path])) for path in sorted(entries)]
                    write_json(self._file, {"v": _VERSION, "trusted": written})
            finally:
                os.close(lock)
        except OSError as error:
            raise TrustError(
                f"{self._file} cannot be written ({error.strerror}): make it writable"
            ) from error


def _seen(path: str) -> Trusted:
    """The entry of a folder or file as it is now. Raises OSError, TrustError."""
    found = os.stat(path, follow_symlinks=False)  # noqa: PTH116 - a text
    content = "" if stat.S_ISDIR(found.st_mode) else _content(Path(path))
    return Trusted(path, found.st_uid, stat.S_IMODE(found.st_mode), content)


def _completed(entry: Trusted) -> Trusted:
    """An entry of the first version as it is now."""
    if entry.mode is not None:
        return entry
    try:
        return replace(_seen(entry.path), content=entry.content)
    except (OSError, TrustError):
        return entry


def _content(path: Path) -> str:
    """SHA-256 of a file. Raises OSError, TrustError."""
    with open(path, "rb", opener=_no_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise TrustError(f"{path} is neither a file nor a folder: name one")
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise TrustError(f"{path} is too long to be trusted by its content: trust its folder")
    return content_of(data)


def content_of(data: bytes) -> str:
    """What stands for a content in the list."""
    return hashlib.sha256(data).hexdigest()


def _no_waiting(path: str, flags: int) -> int:
    """A pipe without a writer is opened at once."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)


def _entry(value: Any) -> Trusted | None:
    """An entry as it is written; None for what is none."""
    if not isinstance(value, Mapping) or not _is_path(value.get("path")):
        return None
    owner, mode, content = value.get("owner"), value.get("mode"), value.get("content")
    numbers = all(number is None or type(number) is int for number in (owner, mode))
    if not numbers or not isinstance(content, str):
        return None
    return Trusted(str(value["path"]), owner, mode, content)


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("/") and "\0" not in value
