"""What stays behind when code is copied (data, results, what git ignores), as links in a local run's copy."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from torchdeck.contract.file_names import name_of

_OWN = frozenset({"__pycache__"})
"""Byte code belongs to the files it was made from."""


def link_what_stays(folder: Path, copy: Path, names: Iterable[str], home: Path) -> int:
    """Let a script find by `__file__` what it always found: a link for each thing that was not copied.

    Args:
        folder: the user's.
        copy: the copy that is being made of it.
        names: what is copied, as the plan names it.
        home: TORCHDECK_HOME; a folder that holds it gets no link, as the run lies in it.

    Returns:
        How many links were made. What cannot be linked is left out.
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
