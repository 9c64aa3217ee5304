"""Finds the files with metrics that a run writes: below folders, and among those that processes hold open."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from torchdeck.contract.processes import PROC
from torchdeck.trainers.files.metric_file_kinds import Kind, kind_of

DEPTH = 8
"""Most folders below one of the roots."""
ENTRIES = 50_000
"""Most names that one walk looks at."""
FOLDER_ENTRIES = 10_000
"""Most names of one folder."""
OPEN_FILES = 4096
"""Most open files of one process that are looked at."""
_SKIPPED = frozenset(
    (
        ".git",
        ".hg",
        ".venv",
        "venv",
        ".conda",
        "node_modules",
        "__pycache__",
        "site-packages",
        ".cache",
        ".tox",
    )
)


class Found(NamedTuple):
    """A file with a name that is known."""

    path: Path
    kind: Kind
    size: int
    changed: float
    """Unix seconds."""


class Walk:
    """One walk through folders after another, each in pieces."""

    def __init__(self, roots: Iterable[Path], *, skipped: Iterable[Path] = ()) -> None:
        """Create it.

        Args:
            roots: folders; those that do not exist yet are looked for again in each walk.
            skipped: folders that are not entered.
        """
        self._roots = [os.path.normpath(root) for root in roots if len(root.parts) > 2]  # never / or /home
        self._skipped = frozenset(map(str, skipped))
        self._running: Iterator[Found | None] | None = None

    def look(self, until: float) -> tuple[list[Found], bool]:
        """Continue the walk, or begin the next; return what was found, and whether this walk is complete.

        Args:
            until: monotonic seconds at which to pause.
        """
        if self._running is None:
            self._running = self._walk()
        found: list[Found] = []
        for each in self._running:
            if each is not None:
                found.append(each)
            if monotonic() >= until:
                return found, False
        self._running = None
        return found, True

    def _walk(self) -> Iterator[Found | None]:
        left = ENTRIES
        folders = [(root, 0) for root in reversed(self._roots)]
        seen = set()
        while folders and left > 0:
            folder, depth = folders.pop()
            if folder in seen:
                continue
            seen.add(folder)
            inner = []
            for entry in _entries(folder):
                left -= 1
                if depth < DEPTH and self._is_entered(entry):
                    inner.append((entry.path, depth + 1))
                elif (found := found_at(entry.path)) is not None:
                    yield found
            folders += inner
            yield None  # a moment to pause

    def _is_entered(self, entry: os.DirEntry[str]) -> bool:
        if entry.name in _SKIPPED or entry.path in self._skipped:
            return False
        try:
            return entry.is_dir(follow_symlinks=False)
        except OSError:
            return False


def held_open(pids: Iterable[int]) -> Iterator[Found]:
    """Yield the files with metrics that processes have open for writing."""
    for pid in pids:
        for descriptor in _entries(f"{PROC}/{pid}/fd", OPEN_FILES):
            try:
                target = os.readlink(descriptor.path)  # noqa: PTH115 - thousands of them: no Path is made
                kind = kind_of(Path(target)) if target.startswith("/") else None
                if kind is None or not _is_written(pid, descriptor.name):
                    continue
            except OSError:
                continue
            found = found_at(target)
            if found is not None:
                yield found


def _is_written(pid: int, descriptor: str) -> bool:
    for line in (PROC / f"{pid}/fdinfo/{descriptor}").read_text().splitlines():
        if line.startswith("flags:"):
            return int(line.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
    return False


def _entries(folder: str, most: int = FOLDER_ENTRIES) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry, _ in zip(entries, range(most), strict=False)]
    except OSError:
        return []


def found_at(path: str) -> Found | None:
    """Return the file at a path; None if its name is not known, or it is not there."""
    kind = kind_of(Path(path))
    if kind is None:
        return None
    try:
        status = os.stat(path)  # noqa: PTH116 - thousands of them: no Path is made
    except OSError:
        return None
    return Found(Path(path), kind, status.st_size, status.st_mtime)
