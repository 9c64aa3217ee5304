"""Trusted folder or file: its state when trusted, and whether it has changed."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.contract.bounded_file import read_bounded
from torchdeck.trust.writers import other_writers

TRUST_PAGE = "recipes#trust"
"""Page of the documentation about trust."""
MOST_BYTES = 8 << 20
"""Maximum bytes of a file that is trusted by its content."""
MOST_FILES = 4096
"""Maximum files directly in a folder that are recorded with it, the first by name."""
MOST_CONTENTS = 256
"""Maximum of those whose content is recorded, too."""
_CODE = (".py", ".so", ".sh")


class Condition(StrEnum):
    """Current condition of an entry."""

    TRUSTED = "trusted"
    CHANGED = "asked for again"
    WRITABLE = "does not count"
    """Others can write it."""
    GONE = "gone"


class State(NamedTuple):
    """Whether an entry applies now."""

    condition: Condition
    why: str = ""
    """Sentence without its period; empty if it applies."""

    def __str__(self) -> str:
        return f"{self.condition}: {self.why}" if self.why else str(self.condition)


class Seen(NamedTuple):
    """Recorded state of a file or folder."""

    owner: int
    """User id."""
    mode: int
    content: str = ""
    """SHA-256 of a file; empty for a folder."""


@dataclass(frozen=True)
class Trusted:
    """Folder or file, and its state when it was trusted."""

    path: str
    """Path without symbolic links."""
    seen: Seen | None = None
    """None in a list of the first version, which did not record it."""
    files: Mapping[str, Seen] = field(default_factory=dict)
    """Code directly in the folder, by name."""

    @classmethod
    def of(cls, path: str) -> Trusted:
        """Create an entry for the current state of `path`. Raises OSError."""
        seen = _look(path)
        return cls(path, seen, {} if seen.content else _code_in(path))

    @classmethod
    def from_json(cls, value: Any) -> Trusted | None:
        """Return an entry from its JSON form; None if invalid."""
        if not isinstance(value, Mapping) or not is_path(value.get("path")) or "seen" not in value:
            return None
        seen, files = _seen_from(value["seen"]), value.get("files")
        if seen is None and value["seen"] is not None:
            return None
        found = {name: _seen_from(each) for name, each in (files if isinstance(files, dict) else {}).items()}
        whole = {name: each for name, each in found.items() if each is not None}
        return cls(str(value["path"]), seen, whole)

    def to_json(self) -> dict[str, Any]:
        """Return the entry as JSON values."""
        return {"path": self.path, "seen": self.seen, "files": dict(self.files)}

    def completed(self) -> Trusted:
        """Add the current state to an entry of the first version; return others unchanged."""
        if self.seen is None:
            with suppress(OSError):
                return Trusted.of(self.path)
        return self

    def change(self, file: Path | None = None) -> str:
        """Return what has changed since; empty if nothing has that requires confirmation.

        For a trusted file the content counts. Code in a folder is edited all day: it counts only if its owner
        or mode has changed as well.

        Args:
            file: file to be executed, without symbolic links.
        """
        try:
            now = _look(self.path, content=self.seen is not None and self.seen.content != "")
            change = "" if self.seen is None else _difference(self.seen, now)
            if change or file is None or file.parent != Path(self.path) or file.name not in self.files:
                return change
            return _replacement(file.name, self.files[file.name], _look(str(file)))
        except OSError:
            return "it no longer exists, or cannot be read"

    def state(self) -> State:
        """Return whether it applies now, and why not."""
        try:
            writers = other_writers(Path(self.path))
        except OSError:
            return State(Condition.GONE, "it no longer exists")
        if writers is not None:
            return State(Condition.WRITABLE, writers.what)
        change = self.change()
        return State(Condition.CHANGED, change) if change else State(Condition.TRUSTED)


def is_path(value: Any) -> bool:
    """Return whether it may be the path of an entry."""
    return isinstance(value, str) and value.startswith("/") and "\0" not in value and is_written(value)


def is_written(name: str) -> bool:
    """Return whether a UTF-8 list can hold a file name, which is bytes."""
    return name == name.encode("utf-8", "replace").decode("utf-8")


def _difference(before: Seen, now: Seen) -> str:
    if before.owner != now.owner:
        return f"its owner has changed (user {before.owner}, now {now.owner})"
    if before.mode != now.mode:
        return f"its mode has changed ({before.mode:o}, now {now.mode:o})"
    return "its content has changed" if before.content != now.content else ""


def _replacement(name: str, before: Seen, now: Seen) -> str:
    if before.content == now.content or before[:2] == now[:2]:
        return ""
    return f"{name} has {'changed, and so has its' if before.content else 'another'} owner or mode"


def _look(path: str, *, content: bool = True) -> Seen:
    """Return the current state of a file or folder. Raises OSError."""
    found = os.stat(path, follow_symlinks=False)  # noqa: PTH116 - a text
    seen = Seen(found.st_uid, stat.S_IMODE(found.st_mode))
    if stat.S_ISDIR(found.st_mode) or not content:
        return seen
    return seen._replace(content=hashlib.sha256(read_bounded(path, MOST_BYTES)).hexdigest())


def _code_in(folder: str) -> dict[str, Seen]:
    """Return the code directly in a folder: files named like code, and executables."""
    found: dict[str, Seen] = {}
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            if len(found) == MOST_FILES:
                break
            with suppress(OSError):
                is_file = entry.is_file(follow_symlinks=False)
                if (
                    is_file
                    and is_written(entry.name)
                    and (entry.name.endswith(_CODE) or entry.stat().st_mode & 0o100)
                ):
                    found[entry.name] = _look(entry.path, content=len(found) < MOST_CONTENTS)
    return found


def _seen_from(value: Any) -> Seen | None:
    if not isinstance(value, list) or len(value) != 3:
        return None
    owner, mode, content = value
    whole = type(owner) is int and type(mode) is int and isinstance(content, str)
    return Seen(owner, mode, content) if whole else None


class Held(NamedTuple):
    """Code that may not run (yet)."""

    folder: Path
    """Folder or file to trust, without symbolic links."""
    what: str
    """Sentence without its period."""
    fix: str
    can_be_trusted: bool = True
    """False if others can write it: it has to be changed first."""

    def __str__(self) -> str:
        return f"{self.what}: {self.fix}"
