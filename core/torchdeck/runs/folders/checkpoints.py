"""Checkpoints of one run: their location, quality, and why each is kept. Nothing is hashed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchdeck.contract.atomic import read_json
from torchdeck.contract.checkpoints.listing import CheckpointInfo, is_leftover, list_checkpoints
from torchdeck.contract.checkpoints.manifest import FINAL_NAME, CheckpointError
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.slots import UnknownSlotError, fill
from torchdeck.distributed.checked import SettingsError
from torchdeck.distributed.checkpoints.directory import CheckpointDirectory
from torchdeck.distributed.checkpoints.retention import Retention, is_named_by_step
from torchdeck.runs.folders.script_checkpoints import ScriptCheckpoint, script_checkpoints
from torchdeck.runs.follower import read_run


@dataclass(frozen=True)
class Standing:
    """Rank of a checkpoint among the others."""

    best: bool
    kept: tuple[str, ...]
    """Why it stays when the next one is saved; empty if unknown, or if it does not stay."""


@dataclass(frozen=True)
class RunCheckpoint:
    """One checkpoint of a run, or the remains of an interrupted save."""

    info: CheckpointInfo
    standing: Standing
    is_leftover: bool
    """Whether it belongs to a save or a deletion that is active or was interrupted; no start will ever use
    it.
    """
    script: ScriptCheckpoint | None = None
    """Set if the run's script wrote it by itself."""


def checkpoint_directory(layout: RunLayout) -> Path:
    """Return the checkpoint directory of the run's plan.

    Raises:
        CheckpointError: the plan does not name one.
    """
    plan = read_json(layout.plan)
    try:
        directory = str(plan["checkpoint"]["directory"])
        return Path(fill(directory, {"run_dir": str(layout.root), "run_id": layout.root.name}))
    except (TypeError, KeyError, UnknownSlotError) as error:
        raise CheckpointError(
            f"{layout.plan} does not say where the run's checkpoints lie ({error}): give their folder instead"
        ) from error


def retention_of(layout: RunLayout) -> Retention | None:
    """Return the rule by which the run keeps checkpoints; None if no recipe plan defines one."""
    from torchdeck.distributed.settings import RecipeSettings

    plan: Any = read_json(layout.plan)
    try:
        settings = RecipeSettings.from_json(plan["nodes"][0]["env"]["TORCHDECK_RECIPE"])
    except (TypeError, KeyError, IndexError, SettingsError):
        return None
    return Retention.from_settings(settings.checkpoint)


def standings(found: Sequence[CheckpointInfo], rule: Retention | None) -> list[Standing]:
    """Rate checkpoints by the run's `rule`; if none is known the best is the one with the lowest held-out
    loss.
    """
    metrics = {info.path: info.manifest.metrics for info in found if info.complete and info.manifest}
    steps = {info.step: metrics[info.path] for info in found if info.path in metrics}
    named = {
        info.step: metrics[info.path] for info in found if info.path in metrics and is_named_by_step(info)
    }
    best = (rule or Retention()).best(steps)[:1]
    kept = rule.kept(named) if rule is not None else {}

    def why(info: CheckpointInfo) -> tuple[str, ...]:
        if info.path.name == FINAL_NAME:
            return (FINAL_NAME,)
        return kept.get(info.step, ()) if info.path in metrics else ()

    return [Standing(info.path in metrics and info.step in best, why(info)) for info in found]


def run_checkpoints(layout: RunLayout) -> tuple[RunCheckpoint, ...]:
    """Return the checkpoints in the run's checkpoint directory, the newest first.

    Raises:
        CheckpointError: the directory is unknown, or cannot be listed.
    """
    found = list_checkpoints(checkpoint_directory(layout))
    rows = zip(found, standings(found, retention_of(layout)), strict=True)
    own = [RunCheckpoint(info, standing, is_leftover(info.path)) for info, standing in rows]
    return (*own, *map(_of_script, script_checkpoints(layout)))[::-1]


def _of_script(found: ScriptCheckpoint) -> RunCheckpoint:
    saved = found.saved
    step = -1 if saved.step is None else saved.step
    info = CheckpointInfo(Path(saved.path), step, complete=True, size=saved.size, manifest=None, why="")
    return RunCheckpoint(info, Standing(best=False, kept=()), is_leftover=False, script=found)


def delete_checkpoint(layout: RunLayout, folder: Path) -> None:
    """Delete one checkpoint of a finished run.

    Raises:
        CheckpointError: the run is active (its rank 0 is the directory's only writer), another process saves
            into
            the directory, or it cannot be deleted.
        NewerFormatError: the run is from a newer Torchdeck.
    """
    view = read_run(layout)
    if not view.is_over:
        raise CheckpointError(
            f"run {view.id} is {view.state}: its checkpoints are kept by its own rule until it is over"
        )
    directory = CheckpointDirectory(checkpoint_directory(layout))
    if folder.parent != directory.path:
        raise CheckpointError(f"{folder} is not one of the checkpoints in {directory.path}")
    directory.open(view.id, wait=0.0)
    try:
        directory.delete(folder)
    finally:
        directory.close()
    if folder.exists():
        raise CheckpointError(f"{folder} could not be deleted: may you write in {directory.path}?")
