"""Files that a program wrote next to its code, in the copy of a run: found at its end, then copied back."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from torchdeck.agent.snapshots.folder import read_manifest
from torchdeck.contract.file_names import name_of
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.processes import UMASK_VARIABLE

COPY_LIMIT = 30.0
"""Seconds in which files are copied to a project on another disk: the run is over only then."""
FILES_LIMIT = 20_000
"""Files looked at; a copy has no more of its own."""
_BYTE_CODE = "__pycache__"
_CHUNK = 4 << 20
"""Bytes copied between looks at the clock."""


class Written(NamedTuple):
    """Files that a program wrote next to its code; names are paths relative to the copy."""

    brought: tuple[str, ...] = ()
    """They are in the project now."""
    left: tuple[str, ...] = ()
    """They are in the copy alone: the project has another file of that name, or cannot be written."""


def written_beside(layout: RunLayout) -> list[str]:
    """Return the regular files in the run's copy that were not copied there, without byte code; sorted."""
    manifest = read_manifest(layout)
    if manifest is None:
        return []
    copied = {name_of(entry.name) for entry in manifest.entries}
    return sorted(name for name in _files(layout.code) if name not in copied)


class Bringing:
    """Moves what was written to the project in a thread: a copy to another disk takes its time.

    Attributes:
        written: the outcome, once `wait` has returned True.
    """

    def __init__(self, layout: RunLayout, project: Path, limit: float = COPY_LIMIT) -> None:
        """Begin. What would take longer than `limit` seconds stays in the copy."""
        self.written = Written()
        self._arguments = (layout, project, limit)
        self._thread = threading.Thread(target=self._run, name="results", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Return whether it is done, after at most so many seconds."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        self.written = bring(*self._arguments)


def bring(layout: RunLayout, project: Path, limit: float = COPY_LIMIT) -> Written:
    """Move what was written to `project`, where nothing of that name is; a link to it stays in the copy.

    Args:
        layout: of the run, which is over.
        project: the folder that the code was copied from, on this machine.
        limit: seconds after which files that cannot just be renamed stay where they are.
    """
    until = time.monotonic() + limit
    brought: list[str] = []
    left: list[str] = []
    for name in written_beside(layout):
        (brought if _move(layout.code / name, project / name, until) else left).append(name)
    return Written(tuple(brought), tuple(left))


def _move(source: Path, target: Path, until: float) -> bool:
    try:
        if os.path.lexists(target):
            return False
        _make_folder(target.parent)
        if not _link(source, target) and not _copy(source, target, until):
            return False
        source.unlink()
    except OSError:
        return False
    with suppress(OSError):
        source.symlink_to(target)
    return True


def _link(source: Path, target: Path) -> bool:
    """Give a file a second name, which replaces nothing; False on another disk, or one without hard links.

    Raises:
        FileExistsError: something has come in between.
    """
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:
        return False
    return True


def _copy(source: Path, target: Path, until: float) -> bool:
    """Copy a file whole or not at all; False if it would take longer than `until`. Raises OSError."""
    part = target.with_name(f".{target.name}.part")
    try:
        with source.open("rb") as read, part.open("wb") as write:
            while data := read.read(_CHUNK):
                if time.monotonic() >= until:
                    return False
                write.write(data)
        shutil.copystat(source, part)
        if not _link(part, target):
            if os.path.lexists(target):
                return False
            part.rename(target)
    finally:
        part.unlink(missing_ok=True)
    return True


def _make_folder(folder: Path) -> None:
    """Make a folder as the user's shell would: the agent's own files are private, these are not its own."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    with suppress(ValueError):
        folder.chmod(0o777 & ~int(os.environ.get(UMASK_VARIABLE, ""), 8))


def _files(root: Path) -> Iterator[str]:
    waiting, left = [""], FILES_LIMIT
    while waiting and left > 0:
        folder = waiting.pop()
        try:
            entries = list(os.scandir(root / folder))
        except OSError:
            continue
        for entry in entries:
            name = f"{folder}/{entry.name}" if folder else entry.name
            left -= 1
            if entry.is_dir(follow_symlinks=False):
                if entry.name != _BYTE_CODE:
                    waiting.append(name)
            elif entry.is_file(follow_symlinks=False):
                yield name
