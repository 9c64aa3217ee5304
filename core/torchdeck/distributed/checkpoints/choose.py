"""Which checkpoint a start resumes from. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torchdeck.distributed.checkpoints.manifest import (
    CheckpointError,
    CheckpointInfo,
    inspect,
    list_checkpoints,
    read_manifest,
    verify,
)


@dataclass(frozen=True)
class Choice:
    """The checkpoint to resume from, and what was passed over on the way to it."""

    folder: Path | None
    """None: start afresh."""
    step: int
    """Optimizer steps done in it; 0 when starting afresh."""
    refused: tuple[str, ...] = ()
    """One sentence for each newer checkpoint that is damaged: which file, what it is, what it should be."""


def choose_checkpoint(directory: Path, resume: str) -> Choice:
    """The checkpoint that `resume` means; every file of the one chosen was hashed.

    Args:
        directory: where the run's checkpoints lie; need not exist.
        resume: `auto` for the newest in `directory` whose hashes verify, `never` or empty for none, else the
            path of
            a checkpoint, or of a directory with checkpoints (then the newest sound one in it).

    Raises:
        CheckpointError: a path was given and nothing sound lies there, or there are checkpoints and all are
            damaged:
            starting afresh would be a surprise in both cases.
    """
    if resume in ("never", ""):
        return Choice(None, 0)
    if resume == "auto":
        return _newest_sound(directory)
    folder = Path(resume)
    if not folder.is_dir():
        raise CheckpointError(f"there is no checkpoint {folder}: give the path of a checkpoint's folder")
    if inspect(folder) is None and any(info.complete for info in list_checkpoints(folder)):
        return _newest_sound(folder)
    problems = verify(folder)
    if problems:
        raise CheckpointError(_damaged(folder, problems))
    return Choice(folder, read_manifest(folder).step)


def _newest_sound(directory: Path) -> Choice:
    refused: list[str] = []
    for info in reversed(list_checkpoints(directory)):
        problems = _problems(info)
        if not problems:
            return Choice(info.path, info.step, tuple(refused))
        if info.manifest is not None:
            refused.append(_damaged(info.path, problems))
    if refused:
        raise CheckpointError(
            f"every checkpoint in {directory} is damaged: " + "; ".join(refused) + ". "
            "Restore one of them from a copy, or start afresh with checkpoint.resume = 'never'"
        )
    return Choice(None, 0)


def _problems(info: CheckpointInfo) -> list[str]:
    return verify(info.path) if info.complete else [info.why]


def _damaged(folder: Path, problems: list[str]) -> str:
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"checkpoint {folder.name} is not used: {problems[0]}{more}"
