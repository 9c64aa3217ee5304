"""Where a program's checkpoints may appear: its working directory, and folders that its arguments name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


def is_named(path: Path, working_dir: Path, command: Sequence[str]) -> bool:
    """Return whether an argument of the command names a folder, below the working directory or elsewhere, in
    which `path` lies.
    """
    for word in command[1:]:
        value = word.partition("=")[2] if word.startswith("-") or "=" in word else word
        folder = Path(os.path.normpath(working_dir / Path(value).expanduser())) if value else working_dir
        if folder != working_dir and folder in path.parents and not working_dir.is_relative_to(folder):
            return True
    return False


def checkpoint_places(working_dir: Path, command: Sequence[str], others: Sequence[Path] = ()) -> list[Path]:
    """Return the folders to look into.

    Args:
        working_dir: of the ranks.
        command: of each rank; values of its arguments that are folders elsewhere are looked into, too.
        others: further folders.
    """
    places = [working_dir, *others]
    for word in command[1:]:
        value = word.partition("=")[2] if word.startswith("-") or "=" in word else word
        if os.sep not in value:
            continue  # within the working directory
        folder = Path(os.path.normpath(working_dir / Path(value).expanduser()))
        if len(folder.parts) > 2 and folder not in places:
            places.append(folder)
    return places
