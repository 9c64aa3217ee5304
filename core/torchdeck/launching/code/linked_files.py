"""Links in a local run's copy to files that are not copied (data, results, files ignored by git)."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from torchdeck.contract.file_names import name_of

_OWN = frozenset({"__pycache__"})
"""Byte code belongs to the files it was compiled from."""


def link_what_stays(folder: Path, copy: Path, names: Iterable[str], home: Path) -> int:
    """Link everything that was not copied, so that a script still finds it by `__file__`.

    Args:
        folder: the user's folder.
        copy: the copy being made of it.
        names: copied names, as in the plan.
        home: TORCHDECK_HOME; a folder that contains it gets no link, as the run is inside it.

    Returns:
        The number of links created. What cannot be linked is skipped.
    """
    copied = {name_of(name) for name in names}
    folders = {"", *(parent for name in copied for parent in _parents(name))}
    count = 0
    for inside in folders:
        for entry in _entries(folder / inside):
            name = posixpath.join(inside, entry.name)
            if name in copied or name in folders or entry.name in _OWN or _holds(entry.path, home):
                continue
            with suppress(OSError):
                (copy / name).symlink_to(entry.path)
                count += 1
    return count


def _parents(name: str) -> Iterable[str]:
    while name := posixpath.dirname(name):
        yield name


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _holds(path: str, home: Path) -> bool:
    return f"{home}/".startswith(f"{path}/")
