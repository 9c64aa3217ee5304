"""External changes of the open file, and saving that never overwrites them without confirmation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torchdeck.config.toml.merge import Merge, MergeError, merge
from torchdeck_app.launch.files.disk import DiskText, FileError, Stamp, stamp_of, write_text


class ChangedError(FileError):
    """The file has changed since it was read; saving would overwrite the change."""


@dataclass(frozen=True)
class DiskChange:
    """Change of the file while it was open."""

    path: Path
    disk: DiskText | None
    """Its current content; None if it is gone."""
    is_edited: bool
    """Whether the document has changes of its own."""
    saving: bool = False
    """Whether it was detected by a save, which was not done."""


def write(path: Path, text: str, newline: str) -> DiskText:
    """Write the file regardless of its content; raises FileError."""
    return DiskText(path, text, write_text(path, text, newline), newline)


def write_unless_changed(path: Path, text: str, newline: str, base: DiskText | None) -> DiskText:
    """Write the file if it is still as in `base`; None: if it does not exist.

    Raises:
        ChangedError: it is not.
        FileError: it cannot be written.
    """
    there = stamp_of(path)
    if there is not None and (base is None or there != base.stamp):
        raise ChangedError(f"{path.name} is not saved: the file was changed by someone else")
    return write(path, text, newline)


def unseen(path: Path, text: str, newline: str) -> DiskText:
    """Return an earlier state of the file with a fingerprint that never matches, so that changes since are
    reported.
    """
    return DiskText(path, text, Stamp(0, 0, 0), newline)


def merged(base: DiskText | None, mine: str, disk: DiskText) -> Merge:
    """Merge both changes of `base`.

    Raises:
        MergeError: they cannot be separated by key, or have different bases.
    """
    if base is None:
        raise MergeError("there is no common beginning")
    return merge(base.text, mine, disk.text)
