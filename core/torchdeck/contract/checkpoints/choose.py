"""Choice of the checkpoint to resume from. Standard library only."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.contract.checkpoints.listing import CheckpointInfo, inspect, list_checkpoints
from torchdeck.contract.checkpoints.manifest import MANIFEST_NAME, CheckpointError, read_manifest
from torchdeck.contract.checkpoints.verification import verify

_SINGLE = "model.json"
"""File in checkpoints that are laid out for other tools (`exchange.single`, which needs torch)."""


class Refused(NamedTuple):
    """A damaged checkpoint."""

    folder: Path
    why: str
    """The file, its state, and the expected state."""


class Choice(NamedTuple):
    """The checkpoint to resume from, and those skipped on the way to it."""

    folder: Path | None
    """None: start from the beginning."""
    step: int
    """Optimizer steps done in it; 0 when starting from the beginning."""
    refused: tuple[Refused, ...] = ()
    """Newer ones that are damaged, newest first."""


def choose_checkpoint(directory: Path, resume: str, *, run_id: str | None = None) -> Choice:
    """Return the checkpoint that `resume` means; every file of the one chosen was hashed.

    Args:
        directory: the folder of the run's checkpoints; need not exist.
        resume: `auto` for the newest in `directory` whose hashes verify, `never` or empty for none, else the
            path of a checkpoint, or of a directory with checkpoints (then the newest intact one in it).
        run_id: under `auto`, only checkpoints that this run saved count; None accepts those of any run.

    Raises:
        CheckpointError: a path was given and nothing intact is there, or there are checkpoints and all are
            damaged: starting from the beginning would be a surprise in both cases.
    """
    if resume in ("never", ""):
        return Choice(None, 0)
    if resume == "auto":
        return _newest_sound(directory, run_id)
    folder = Path(resume)
    if not folder.is_dir():
        raise CheckpointError(f"there is no checkpoint {folder}: give the path of a checkpoint's folder")
    if inspect(folder) is None and any(info.complete for info in list_checkpoints(folder)):
        return _newest_sound(folder, None)
    problems = verify(folder)
    if problems:
        raise CheckpointError(f"checkpoint {folder} cannot be used: {summary(problems)}")
    manifest = read_manifest(folder)
    if _SINGLE in manifest.files:
        raise CheckpointError(
            f"{folder} is a single-file checkpoint or an export, from which runs do not continue: give "
            f"what `torchdeck ckpt convert {folder} DST --to sharded` makes (an export lacks what that takes)"
        )
    return Choice(folder, manifest.step)


@arguments()
def find_latest_checkpoint(directory: str | Path) -> Path | None:
    """Find the newest checkpoint in `directory` whose files all match the hashes in its manifest.

    Returns:
        Its folder; None if there is no checkpoint.

    Raises:
        CheckpointError: all checkpoints are damaged, or the directory cannot be listed.
    """
    return choose_checkpoint(Path(directory), "auto").folder


def candidates(directory: Path, run_id: str | None = None) -> list[CheckpointInfo]:
    """Return what a start may resume from, newest first, not hashed yet.

    Incomplete ones are included, so that they can be named; a folder without a manifest never was a
    checkpoint, and nothing is lost with it.

    Args:
        directory: folder of the checkpoints.
        run_id: only checkpoints that this run saved count; None takes those of any run.

    Raises:
        CheckpointError: the directory cannot be listed.
    """
    found = [info for info in list_checkpoints(directory) if os.path.lexists(info.path / MANIFEST_NAME)]
    if run_id is not None:
        found = [info for info in found if info.manifest is None or info.manifest.run_id == run_id]
    return found[::-1]


def all_damaged(directory: Path, refused: Sequence[Refused]) -> CheckpointError:
    """Return the error for a start of which no candidate is sound: starting over would lose them in
    silence.
    """
    named = "; ".join(f"{item.folder.name}: {item.why}" for item in refused)
    return CheckpointError(
        f"every checkpoint in {directory} is damaged ({named}). "
        "Restore one of them from a copy, or start over with checkpoint.resume = 'never'"
    )


def summary(problems: Sequence[str]) -> str:
    """Return the first of `problems`, and how many more there are."""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return problems[0] + more


def _newest_sound(directory: Path, run_id: str | None) -> Choice:
    refused: list[Refused] = []
    for info in candidates(directory, run_id):
        problems = verify(info.path) if info.complete else [info.why]
        if not problems:
            return Choice(info.path, info.step, tuple(refused))
        refused.append(Refused(info.path, summary(problems)))
    if refused:
        raise all_damaged(directory, refused)
    return Choice(None, 0)
