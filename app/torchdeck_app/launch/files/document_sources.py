"""Sources of a new document: a recent file, a script that gets a run file, a preset that is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchdeck.config.starting_files import is_recipe, recipe_text, script_text
from torchdeck_app.launch.files.run_file import DiskText, FileError, read_text, stamp_of, write_text


@dataclass(frozen=True)
class Beginning:
    """Text to load, and its file."""

    text: str
    path: Path | None
    """Current or future file; None for an unnamed one."""
    disk: DiskText | None = None
    """None if it is in no file yet."""
    note: str = ""
    """Message for the user."""


def begin_with(path: Path) -> Beginning:
    """Open a run file, or a Python file, which gets an unsaved run file.

    Raises:
        FileError: it cannot be read.
    """
    path = path.absolute()
    found = read_text(path)
    if path.suffix != ".py":
        return Beginning(found.text, path, found, found.damage)
    make = recipe_text if is_recipe(found.text) else script_text
    target = unused(path.with_suffix(".toml"))
    note = f"Created a run file for {path.name}. You can launch it without saving."
    return Beginning(make(path, path.parent), target, None, note)


def write_files(contents: Mapping[Path, str]) -> Beginning:
    """Write a preset's files, the run file first, and begin with it; nothing is overwritten.

    Raises:
        FileError: one of them exists, or cannot be written.
    """
    target = next(iter(contents))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        there = [path for path in contents if stamp_of(path) is not None]
    except OSError as error:
        raise FileError(
            f"{target.parent} cannot be used ({error.strerror}): choose another folder"
        ) from error
    if there:
        raise FileError(f"{' and '.join(map(str, there))} exists already: choose another folder")
    for path, text in contents.items():
        write_text(path, text)
    found = read_text(target)
    others = " and ".join(path.name for path in contents if path != target)
    return Beginning(found.text, target, found, f"Written in {target.parent}: {target.name} and {others}.")


def unused(path: Path) -> Path:
    """Return `path`, or an unused variant with a number."""
    found, number = path, 2
    while found.exists():
        found, number = path.with_name(f"{path.stem}-{number}{path.suffix}"), number + 1
    return found


LIMIT = 10


class RecentFiles:
    """List of at most ten files."""

    def __init__(self) -> None:
        self._paths: list[Path] = []

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(self._paths)

    def add(self, path: Path) -> None:
        """Add `path`, which was just opened or saved."""
        self._paths = [path, *(other for other in self._paths if other != path)][:LIMIT]

    def forget(self, path: Path) -> None:
        """Remove a file that no longer exists."""
        self._paths = [other for other in self._paths if other != path]

    def save_state(self) -> list[str]:
        return [str(path) for path in self._paths]

    def restore_state(self, state: Any) -> None:
        """Restore the result of `save_state`."""
        values: Iterable[Any] = state if isinstance(state, list) else ()
        self._paths = [Path(item) for item in values if isinstance(item, str) and item.startswith("/")][
            :LIMIT
        ]
