"""Checkpoints of one run: their location, quality, and why each is kept. Nothing is hashed."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from torchdeck.contract.atomic import read_json
from torchdeck.contract.checkpoints.listing import CheckpointInfo, is_leftover, list_checkpoints
from torchdeck.contract.checkpoints.manifest import FINAL_NAME, MANIFEST_NAME, CheckpointError
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.journal import read_journal
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan, PlanFormatError
from torchdeck.contract.plan.slots import UnknownSlotError, fill
from torchdeck.distributed.checked import SettingsError
from torchdeck.distributed.checkpoints.retention import Retention, is_named_by_step
from torchdeck.trainers.checkpoints.checkpoint_search import content_of, find_checkpoints, look_at
from torchdeck.trainers.checkpoints.journaled import JournaledCheckpoint, journaled_checkpoints
from torchdeck.trainers.checkpoints.places import checkpoint_places

# Checkpoints that a script wrote by itself, from the journals of a run.


@dataclass(frozen=True)
class ScriptCheckpoint:
    """One that was complete, and that the agent has not seen deleted."""

    saved: JournaledCheckpoint
    node: str
    """Empty: this machine."""
    pulled_from: str = ""
    """Node that it was copied from; its path is that of the copy."""
    path_there: str = ""
    """Its path on that node."""

    @property
    def name(self) -> str:
        return PurePath(self.saved.path).name

    @property
    def is_elsewhere(self) -> bool:
        return bool(self.node)

    @property
    def is_gone(self) -> bool:
        """It was on this machine and is not any more."""
        return not self.node and not Path(self.saved.path).exists()


def checkpoints_in(folder: Path) -> tuple[ScriptCheckpoint, ...]:
    """Return the complete ones in a folder of this machine, or the one that it is, oldest first."""
    found = [] if (folder / MANIFEST_NAME).exists() else find_checkpoints([folder])
    return tuple(
        ScriptCheckpoint(
            JournaledCheckpoint(
                each.step, each.path, 0.0, content_of(Path(each.path)).size, each.kind, each.changed
            ),
            "",
        )
        for each in found
        if not each.incomplete
    )


def script_checkpoints(layout: RunLayout, *, with_copies: bool = True) -> tuple[ScriptCheckpoint, ...]:
    """Return them, oldest first, without those that were deleted since.

    Args:
        layout: of the run.
        with_copies: the copy here of one on a node takes its place.
    """
    found: list[ScriptCheckpoint] = []
    if layout.nodes.is_dir():
        for folder in sorted(layout.nodes.iterdir()):
            node = "" if folder.name == LOCALHOST else folder.name
            saved = journaled_checkpoints(read_journal(layout.node(folder.name).journal))
            found += [ScriptCheckpoint(each, node) for each in saved.values()]
    there = {(each.saved, each.is_elsewhere): each for each in reversed(found) if not each.is_gone}
    # what several nodes see on a disk that they share is one checkpoint
    newest_last = sorted(there.values(), key=lambda each: (each.saved.changed, each.node))
    return tuple((_pulled(layout, each) if with_copies else None) or each for each in newest_last)


def unnoticed_checkpoint(layout: RunLayout) -> Path | None:
    """Return the newest complete one here that was written since a script's run began and that its agent did
    not notice, as when the machine lost power just then; None if there is none.
    """
    attempt = layout.attempt(1).plan
    try:
        plan = LaunchPlan.from_json(read_json(attempt))
        begun = attempt.stat().st_mtime
    except (PlanFormatError, OSError):
        return None
    if plan.kind not in ("script", "module") or [node.name for node in plan.nodes] != [LOCALHOST]:
        return None
    folder, command = Path(plan.nodes[0].working_dir), plan.nodes[0].command
    places = checkpoint_places(folder, command, [layout.checkpoints, layout.code])
    known = {each.saved.path for each in script_checkpoints(layout)}
    found = [
        each
        for each in find_checkpoints(places, [layout.home.root])
        if not each.incomplete and each.changed >= begun and each.path not in known
    ]
    return Path(found[-1].path) if found else None


def pulled_place(layout: RunLayout, found: ScriptCheckpoint, folder: Path | None = None) -> Path:
    """Return where a checkpoint on a node is copied to: a place of its own for each node and path.

    Args:
        layout: of the run.
        found: checkpoint on a node.
        folder: of the run's copied checkpoints; default: in the run's directory here.
    """
    path = PurePath(found.saved.path)
    parts = path.parts[1:] if path.is_absolute() else path.parts
    if layout.root.name in parts:  # in the run's directory there
        parts = parts[parts.index(layout.root.name) + 1 :]
    return (folder or layout.checkpoints).joinpath(found.node, *(part for part in parts if part != ".."))


def _pulled(layout: RunLayout, found: ScriptCheckpoint) -> ScriptCheckpoint | None:
    """The copy here of a checkpoint on a node; None if there is none, or it is of an earlier save."""
    if not found.node:
        return None
    place, saved = pulled_place(layout, found), found.saved
    here = look_at(place)
    if here is None or here.incomplete:
        return None
    if here.changed != saved.changed and content_of(place).size != saved.size:
        return None
    return ScriptCheckpoint(saved._replace(path=str(place)), "", found.node, saved.path)


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
            f"{layout.plan} does not tell where the run's checkpoints are ({error}): give their "
            "folder instead"
        ) from error


def by_directory(layouts: Iterable[RunLayout]) -> dict[Path, list[RunLayout]]:
    """Group runs by their checkpoint directory, links resolved; those without a known one are left out."""
    found: dict[Path, list[RunLayout]] = defaultdict(list)
    for layout in layouts:
        with suppress(CheckpointError, OSError):
            found[Path(os.path.realpath(checkpoint_directory(layout)))].append(layout)
    return found


def retention_of(layout: RunLayout) -> Retention | None:
    """Return the rule by which the run keeps checkpoints; None if no recipe plan defines one."""
    from torchdeck.distributed.rank_settings import RecipeSettings

    plan: Any = read_json(layout.plan)
    try:
        settings = RecipeSettings.from_json(plan["nodes"][0]["env"]["TORCHDECK_RECIPE"])
    except (TypeError, KeyError, IndexError, SettingsError):
        return None
    return Retention.from_settings(settings.checkpoint)


def standings(found: Sequence[CheckpointInfo], rule: Retention | None) -> list[Standing]:
    """Rate checkpoints by the run's `rule`; if none is known the best is the one with the lowest validation
    loss.
    """
    metrics = {info.path: info.manifest.current_metrics for info in found if info.complete and info.manifest}
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
