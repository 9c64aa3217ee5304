"""Content of a checkpoint directory: checkpoints, and remains of saves. Standard library only."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from torchdeck.contract.checkpoints.manifest import (
    FINAL_NAME,
    MANIFEST_NAME,
    UNCOMMITTED_NAME,
    CheckpointError,
    Manifest,
    read_manifest,
)
from torchdeck.contract.checkpoints.verification import size_problem

_CHECKPOINT = re.compile(r"(?:\.replaced-)?(?:step_(\d{8,})|final)")
_LEFTOVER = re.compile(r"\.(tmp|deleted|replaced)-(step_(\d{8,})|final)(?:-.+)?")


@dataclass(frozen=True)
class CheckpointInfo:
    """One folder of a checkpoint directory, checked without hashing."""

    path: Path
    step: int
    """From the manifest, else from the folder's name; -1 if neither has it."""
    complete: bool
    """Whether the manifest is present and intact, and every file has the size in it."""
    size: int
    """Bytes of the files that exist."""
    manifest: Manifest | None
    why: str
    """Why it is not complete, as a sentence; empty if it is."""


def list_checkpoints(directory: Path) -> list[CheckpointInfo]:
    """List a checkpoint directory: checkpoints and remains of interrupted saves, oldest step first.

    `final` comes after the checkpoint of the same step. An absent directory holds nothing.

    Raises:
        CheckpointError: the directory cannot be listed.
    """
    try:
        folders = [path for path in directory.iterdir() if path.is_dir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(
            f"checkpoint directory {directory} cannot be listed: {error.strerror}"
        ) from error
    found = [info for info in map(inspect, folders) if info is not None]
    return sorted(
        found, key=lambda info: (info.step, info.complete, info.path.name == FINAL_NAME, info.path.name)
    )


def newest_complete(directory: Path) -> CheckpointInfo | None:
    """Return the complete checkpoint with the most steps; None if there is none. Nothing is hashed."""
    complete = [info for info in list_checkpoints(directory) if info.complete]
    return complete[-1] if complete else None


def inspect(folder: Path) -> CheckpointInfo | None:
    """Describe `folder` by its name, manifest and sizes; None if the name is none of ours.

    `.replaced-NAME` is the former checkpoint NAME, moved away while a new one takes its place: complete
    until then.
    """
    checkpoint = _CHECKPOINT.fullmatch(folder.name)
    if checkpoint is None:
        leftover = _LEFTOVER.fullmatch(folder.name)
        if leftover is None:
            return None
        step = int(leftover.group(3)) if leftover.group(3) else -1
        what = "a deletion" if leftover.group(1) == "deleted" else "a save"
        return CheckpointInfo(
            folder,
            step,
            complete=False,
            size=_size_on_disk(folder),
            manifest=None,
            why=f"left over from {what}, not finished",
        )
    step = int(checkpoint.group(1)) if checkpoint.group(1) else -1
    try:
        manifest = read_manifest(folder)
    except CheckpointError as error:
        return CheckpointInfo(
            folder, step, complete=False, size=_size_on_disk(folder), manifest=None, why=str(error)
        )
    problems = (size_problem(folder, name, entry) for name, entry in manifest.files_here.items())
    why = next((problem for problem in problems if problem is not None), "")
    if step not in (-1, manifest.step):
        why = f"{folder} holds the checkpoint of step {manifest.step}: it was renamed"
    size = _size_on_disk(folder) if why else manifest.size
    return CheckpointInfo(folder, manifest.step, complete=not why, size=size, manifest=manifest, why=why)


def is_leftover(folder: Path) -> bool:
    """Return whether `folder` is a remainder of Torchdeck's own saves and deletions that no start will ever
    use.
    """
    if folder.is_symlink() or not folder.is_dir():
        return False
    leftover = _LEFTOVER.fullmatch(folder.name)
    if leftover is not None and leftover.group(1) in ("tmp", "deleted"):
        return True
    if leftover is not None:  # moved away: only of use while its replacement is not complete
        successor = inspect(folder.with_name(leftover.group(2)))
        return successor is not None and successor.complete
    named = _CHECKPOINT.fullmatch(folder.name) is not None
    return named and (folder / UNCOMMITTED_NAME).exists() and not (folder / MANIFEST_NAME).exists()


def _size_on_disk(folder: Path) -> int:
    # not rglob, which raises if a folder disappears while it is read, as in a deletion
    return sum(_file_size(Path(where, name)) for where, _, names in os.walk(folder) for name in names)


def _file_size(path: Path) -> int:
    try:
        status = path.lstat()
    except OSError:
        return 0  # just being deleted
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
