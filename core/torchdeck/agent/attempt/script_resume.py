"""The checkpoint that a script continues from in an attempt, and how."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from torchdeck.agent.attempt.resume_points import SCRIPT, AttemptError
from torchdeck.agent.gang.events import ResumePoint
from torchdeck.contract.journal import read_journal
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.plan.slots import UnknownSlotError, fill
from torchdeck.trainers.checkpoints.checkpoint_kinds import CheckpointKind
from torchdeck.trainers.checkpoints.checkpoint_search import find_checkpoints, look_at
from torchdeck.trainers.checkpoints.journaled import journaled_checkpoints
from torchdeck.trainers.checkpoints.places import checkpoint_places
from torchdeck.trainers.resume import (
    RESUME_VARIABLE,
    ResumeBy,
    ResumeRule,
    written,
)
from torchdeck.trainers.resume_rules import rule_of_checkpoint

SCRIPTS = ("script", "module")
UNKNOWN_STEP = -1


class Continued(NamedTuple):
    """How a script begins an attempt."""

    path: str = ""
    """Checkpoint that it continues from; empty: from the beginning."""
    step: int | None = None
    rule: ResumeRule | None = None
    from_scratch: str = ""
    """Why it begins from the beginning although there is a checkpoint, as a clause; empty otherwise."""
    is_another_runs: bool = False
    """That is since another run may have saved it."""


class _Saved(NamedTuple):
    path: str
    step: int | None
    kind: CheckpointKind
    other: str = ""
    changed: float = 0.0
    about: bool = False
    is_copied: bool = False
    """It appeared on this node after the run began, and not by its ranks."""


def continued(layout: RunLayout, plan: LaunchPlan, number: int, asked: Sequence[str] = ()) -> Continued:
    """Return how the script of a plan on one node begins an attempt.

    Args:
        layout: of the run.
        plan: of the run.
        number: of the attempt, from 1.
        asked: arguments with which to continue, instead of those in the plan.

    Raises:
        AttemptError: checkpoint.resume names a checkpoint that is not complete, or it is not known how the
            script continues from it.
    """
    if plan.kind not in SCRIPTS:
        return Continued()
    node = plan.nodes[0].name
    own = _complete(_own(layout, node)) if number > 1 else []
    asked_for = None if own else _asked(plan)
    saved = own[0] if own else asked_for
    if saved is None:
        return Continued()
    if saved.other:
        return Continued(from_scratch=_is_another_runs(saved), is_another_runs=True)
    how = _by_rule(plan, node, saved, tuple(map(written, asked)))
    if how.from_scratch and not own:
        raise AttemptError(f"cannot resume: {how.from_scratch}")
    return how


def script_points(layout: RunLayout, plan: LaunchPlan, node: str, number: int) -> tuple[ResumePoint, ...]:
    """Return the checkpoints that the script of a plan on several nodes can continue from here, newest first.

    Raises:
        AttemptError: checkpoint.resume names a checkpoint that is not complete, or another run may have saved
            the newest one.
    """
    if plan.kind not in SCRIPTS:
        return ()
    own = _complete([*_own(layout, node), *_copied(layout, plan, node)]) if number > 1 else []
    if own and own[0].other:
        raise AttemptError(f"cannot resume: {_is_another_runs(own[0])}")
    if not own:
        asked = _asked(plan)
        return () if asked is None else (_point(asked)._replace(name=""),)
    return tuple(map(_point, own))


def continued_together(
    layout: RunLayout,
    plan: LaunchPlan,
    node: str,
    point: ResumePoint | None,
    asked: Sequence[str] = (),
) -> Continued:
    """Return how the script of a plan on several nodes begins an attempt here, from what all have.

    Raises:
        AttemptError: it is not complete here, or the script would take a newer one by itself.
    """
    if point is None or point.source != SCRIPT:
        return Continued()
    if not point.name:
        saved = _asked(plan)
        found = [] if saved is None else [saved]
    else:
        found = _complete([*_own(layout, node), *_copied(layout, plan, node)])
    same = [saved for saved in found if not point.name or _point(saved)[:3] == point[:3]]
    if not same:
        raise AttemptError(f"cannot resume: {point.name or plan.checkpoint.resume} is not complete here")
    how = _by_rule(plan, node, same[0], tuple(map(written, asked)))
    if how.rule is not None and not how.rule.names_checkpoint and found[0] != same[0]:
        newest, chosen = Path(found[0].path), Path(same[0].path).name
        raise AttemptError(
            f"cannot resume: the script uses the newest checkpoint that it finds, but {newest} is not "
            f"complete on every node: copy it to the others, or remove it to continue from {chosen}"
        )
    return how


def how_it_continues(plan: LaunchPlan, node: str, kind: CheckpointKind) -> ResumeRule | None:
    """Return how a script continues from a checkpoint of this kind on a node; None if unknown."""
    if plan.checkpoint.resume_args:
        return ResumeRule(ResumeBy.ARGUMENTS, plan.checkpoint.resume_args)
    command = plan.node(node).command
    return _known(plan) or rule_of_checkpoint(kind, command, inside="inside" in plan.slots)


def _by_rule(plan: LaunchPlan, node: str, saved: _Saved, asked: tuple[str, ...]) -> Continued:
    rule = ResumeRule(ResumeBy.ARGUMENTS, asked) if asked else how_it_continues(plan, node, saved.kind)
    if rule is None:
        name = Path(saved.path).name
        return Continued(
            from_scratch=f"it is unknown how the script continues from {name}: set run.resume_args"
        )
    return Continued(saved.path, saved.step, rule)


def _is_another_runs(saved: _Saved) -> str:
    return (
        f"run {saved.other} uses the same folder and may have saved {Path(saved.path).name}: "
        "give each run its own output folder with an argument"
    )


def _point(saved: _Saved) -> ResumePoint:
    step = UNKNOWN_STEP if saved.step is None or saved.about else saved.step
    here = () if saved.is_copied else ("saved",)
    name, kind = Path(saved.path).name, saved.kind.value
    return ResumePoint(SCRIPT, name, step, save=kind, here=here, created=saved.changed)


def _known(plan: LaunchPlan) -> ResumeRule | None:
    """As the program itself showed when the plan was made."""
    by = plan.checkpoint.resume_by
    return ResumeRule(ResumeBy(by)) if by in (ResumeBy.AGAIN, ResumeBy.INSIDE) else None


def _own(layout: RunLayout, node: str) -> list[_Saved]:
    """All that a node's ranks saved in this run, as its journal has it; newest first."""
    known = journaled_checkpoints(read_journal(layout.node(node).journal)).values()
    return [
        _Saved(saved.path, saved.step, saved.kind, saved.other, saved.changed, saved.about)
        for saved in sorted(known, key=lambda saved: saved.changed, reverse=True)
    ]


def _copied(layout: RunLayout, plan: LaunchPlan, node: str) -> list[_Saved]:
    """Return what lies where the ranks save, since the run began, and was not journaled: it was copied."""
    first = layout.attempt(1)
    begun = next((path for path in (first.node(node).plan, first.plan) if path.exists()), None)
    if begun is None:
        return []
    values = {"run_id": layout.root.name, "run_dir": str(layout.root), "code": str(layout.code)}
    folder = Path(fill(plan.node(node).working_dir, values))
    command = [_filled(word, values) for word in plan.node(node).command]
    known, since = {saved.path for saved in _own(layout, node)}, begun.stat().st_mtime
    places = checkpoint_places(folder, command, [layout.checkpoints, layout.code])
    return [
        _Saved(found.path, found.step, found.kind, changed=found.changed, is_copied=True)
        for found in find_checkpoints(places, [layout.home.root])
        if found.path not in known and found.changed >= since
    ]


def _filled(word: str, values: Mapping[str, str]) -> str:
    try:
        return fill(word, values)
    except UnknownSlotError:  # known once the attempt is prepared, and no folder
        return word


def _complete(saved: Sequence[_Saved]) -> list[_Saved]:
    """Those that are still there and complete."""
    looked = [(each, look_at(Path(each.path))) for each in saved]
    return [each for each, found in looked if found is not None and not found.incomplete]


def _asked(plan: LaunchPlan) -> _Saved | None:
    """The checkpoint that checkpoint.resume names; None if it is one of Torchdeck's own."""
    if plan.checkpoint.resume in ("auto", "never", ""):
        return None
    path = Path(plan.checkpoint.resume)
    if (path / "manifest.json").is_file():
        return None
    found = look_at(path)
    if found is None:
        return None
    if found.incomplete:
        raise AttemptError(f"cannot resume from {path}: {found.incomplete}")
    return _Saved(found.path, found.step, found.kind)


def with_checkpoint(plan: LaunchPlan, how: Continued) -> LaunchPlan:
    """Return the plan of an attempt, its slots filled, with the arguments and variables to continue."""
    if how.rule is None:
        return plan
    values = {"checkpoint": how.path}
    added: Sequence[str] = [fill(argument, values) for argument in how.rule.arguments]
    nodes = tuple(
        dataclasses.replace(
            node,
            command=(*node.command, *added),
            env={**node.env, RESUME_VARIABLE: how.path},
        )
        for node in plan.nodes
    )
    return dataclasses.replace(plan, nodes=nodes)
