"""Files that a program wrote beside its code, in the run's copy: found at the end, brought to the project."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from torchdeck.agent.snapshots.folder import read_manifest
from torchdeck.contract.file_names import name_of
from torchdeck.contract.layout import RunLayout

FILES_LIMIT = 20_000
"""Files looked at; a copy has no more of its own."""
_BYTE_CODE = "__pycache__"


class Written(NamedTuple):
    """Files that a program wrote beside its code; names are paths relative to the copy."""

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


def bring(layout: RunLayout, project: Path) -> Written:
    """Move what was written to `project`, where nothing of that name is; a link to it stays in the copy.

    Args:
        layout: of the run, which is over.
        project: the folder that the code was copied from, on this machine.
    """
    brought: list[str] = []
    left: list[str] = []
    for name in written_beside(layout):
        (brought if _move(layout.code / name, project / name) else left).append(name)
    return Written(tuple(brought), tuple(left))


def _move(source: Path, target: Path) -> bool:
    try:
        if os.path.lexists(target):
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.part")
        shutil.copy2(source, part, follow_symlinks=False)
        try:
            os.link(part, target)  # unlike a rename, it never replaces what has come in between
        finally:
            part.unlink()
        source.unlink()
    except OSError:
        return False
    with suppress(OSError):
        source.symlink_to(target)
    return True


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
