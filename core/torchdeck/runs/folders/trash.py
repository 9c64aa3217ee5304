"""The trash of a home: deleted runs that can be restored until it is emptied."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.layout import TRASH_PREFIX, Home
from torchdeck.runs.folders.deletion import is_aside, run_of
from torchdeck.runs.folders.origin import name_in


class Trashed(NamedTuple):
    """One run in the trash."""

    folder: Path
    run_id: str
    name: str
    """The run's name as far as its id contains it."""
    deleted: float
    """Unix seconds."""


def in_trash(home: Path) -> tuple[Trashed, ...]:
    """Return the runs in the trash of a home, the last deleted first.

    Raises:
        OSError: the folder of the runs cannot be listed.
    """
    runs = Home(home).runs
    found = []
    for folder in runs.glob(f"{TRASH_PREFIX}*") if runs.is_dir() else ():
        with suppress(OSError):  # removed or restored meanwhile
            if is_aside(folder):
                run_id = run_of(folder.name)
                found.append(Trashed(folder, run_id, name_in(run_id), folder.stat().st_ctime))
    return tuple(sorted(found, key=lambda each: (-each.deleted, each.run_id)))
