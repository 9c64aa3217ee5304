"""What others have done to the file that is open, and saving that never undoes it unasked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torchdeck.config.toml.merge import Merge, MergeError, merge
from torchdeck_app.launch.files.disk import DiskText, FileError, Stamp, stamp_of, write_text


class ChangedError(FileError):
    """The file is another one than was read; saving would undo somebody's change."""


@dataclass(frozen=True)
class DiskChange:
    """What became of the file while it was open."""

    path: Path
    disk: DiskText | None
    """What it holds now; None where it is gone."""
    is_edited: bool
    """The document has changes of its own."""
    saving: bool = False
    """It was seen when the document was to be saved, which was not done."""


def write(path: Path, text: str, newline: str) -> DiskText:
    """Write the file, whatever it holds; raises FileError."""
    return DiskText(path, text, write_text(path, text, newline), newline)


def write_unless_changed(path: Path, text: str, newline: str, base: DiskText | None) -> DiskText:
    """Write the file where it is still as `base` says; None: where there is none.

    Raises:
        ChangedError: it is not.
        FileError: it cannot be written.
    """
    there = stamp_of(path)
    if there is not None and (base is None or there != base.stamp):
        raise ChangedError(f"{path.name} is not saved: the file was changed by somebody else")
    return write(path, text, newline)


def unseen(path: Path, text: str, newline: str) -> DiskText:
    """The file as it was some time ago: its stamp fits none, so that what has changed meanwhile is told."""
    return DiskText(path, text, Stamp(0, 0, 0), newline)


def merged(base: DiskText | None, mine: str, disk: DiskText) -> Merge:
    """Both changes of `base` together.

    Raises:
        MergeError: they cannot be told apart by key, or did not begin with the same.
    """
    if base is None:
        raise MergeError("there is no common beginning")
    return merge(base.text, mine, disk.text)
