"""Texts of the checkpoint list."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torchdeck.quantities import ago, brief, moment, size
from torchdeck.runs.folders.checkpoints import RunCheckpoint
from torchdeck.runs.folders.verdicts import Verdict

HEADINGS = ("Step", "Saved", "Size", "Took", "State", "Resumes on", "Kept as")


Verdicts = Mapping[Path, Verdict]
"""Verdicts of checkpoints that were hashed and have not changed since."""


def cells(row: RunCheckpoint, now: float, verdicts: Verdicts, *, is_live: bool) -> tuple[str, ...]:
    """Return one text per column; `now` in unix seconds."""
    info, manifest = row.info, row.info.manifest
    step = "?" if info.step < 0 else f"{info.step:,}"
    return (
        step,
        "" if manifest is None else ago(now - manifest.created),
        size(info.size),
        "" if manifest is None or not manifest.seconds else brief(manifest.seconds),
        state(row, now, verdicts, is_live=is_live),
        "" if manifest is None or not info.complete else goes_on_with(manifest.world_size),
        ", ".join([*(("best",) if row.standing.best else ()), *row.standing.kept]),
    )


def state(row: RunCheckpoint, now: float, verdicts: Verdicts, *, is_live: bool) -> str:
    """Return the integrity of a checkpoint as far as known."""
    if row.is_leftover or row.info.path.name.startswith(".tmp-"):
        return "◐ being saved" if is_live else "○ left over, of no use"
    verdict = verdicts.get(row.info.path)
    if verdict is not None and verdict.problems:
        return "✕ damaged"
    if not row.info.complete:
        return "✕ not complete"
    return "● complete" if verdict is None else f"✓ verified {ago(now - verdict.time)}"


def goes_on_with(world_size: int) -> str:
    """Return which world sizes can resume it: any, and one of them bit for bit."""
    return f"any ranks, exactly on {world_size:,}"


def going_on(row: RunCheckpoint, *, resumes: bool) -> str:
    """Return the effect of continuing from it: the run itself is resumed, or a new run starts."""
    if resumes:
        return f"This run continues from step {row.info.step:,}"
    return f"Begins a new run at step {row.info.step:,}; this one stays"


def tooltip(row: RunCheckpoint, verdicts: Verdicts) -> str:
    """Return all facts about a checkpoint, one per line."""
    info, manifest = row.info, row.info.manifest
    lines = [str(info.path)]
    if manifest is not None:
        lines.append(
            f"saved {moment(manifest.created)} by {manifest.strategy} on {manifest.world_size} ranks"
        )
        lines.append(f"{manifest.size:,} bytes in {len(manifest.files):,} files, attempt {manifest.attempt}")
        lines += [f"{name} {value:.6g}" for name, value in sorted(manifest.metrics.items())]
    lines += [info.why] if info.why else []
    verdict = verdicts.get(info.path)
    if verdict is not None:
        sound = "" if verdict.problems else ": every file has the hash that the manifest names"
        lines += [f"hashed {moment(verdict.time)}{sound}", *verdict.problems]
    return "\n".join(lines)
