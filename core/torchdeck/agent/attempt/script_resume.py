"""The checkpoint that a script continues from in an attempt, and how."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from torchdeck.agent.attempt.resume_points import AttemptError
from torchdeck.contract.journal import read_journal
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.plan.slots import fill
from torchdeck.trainers.checkpoints.journaled import journaled_checkpoints
from torchdeck.trainers.checkpoints.kinds import CheckpointKind
from torchdeck.trainers.checkpoints.search import look_at
from torchdeck.trainers.resume import (
    RESUME_VARIABLE,
    SEVERAL_NODES,
    ResumeBy,
    ResumeRule,
    rule_of_checkpoint,
    written,
)

SCRIPTS = ("script", "module")


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
    if len(plan.nodes) > 1:
        by_itself = plan.checkpoint.resume_by == ResumeBy.AGAIN or number == 1
        return Continued(from_scratch="" if by_itself else SEVERAL_NODES)
    saved = _newest_own(layout, plan.nodes[0].name) if number > 1 else None
    is_own = saved is not None
    if saved is None and plan.checkpoint.resume not in ("auto", "never", ""):
        saved = _asked(Path(plan.checkpoint.resume))
    if saved is None:
        return Continued()
    if saved.other:
        name = Path(saved.path).name
        return Continued(
            from_scratch=f"run {saved.other} works in the same folder and may have saved {name}: "
            "give each run an output folder of its own by an argument",
            is_another_runs=True,
        )
    arguments = tuple(map(written, asked)) or plan.checkpoint.resume_args
    if arguments:
        rule: ResumeRule | None = ResumeRule(ResumeBy.ARGUMENTS, arguments)
    else:
        rule = _known(plan) or rule_of_checkpoint(
            saved.kind, plan.nodes[0].command, inside="inside" in plan.slots
        )
    if rule is None:
        why = f"how it continues from {Path(saved.path).name} is not known: set run.resume_args"
        if not is_own:
            raise AttemptError(f"cannot resume: {why}")
        return Continued(from_scratch=why)
    return Continued(saved.path, saved.step, rule)


def _known(plan: LaunchPlan) -> ResumeRule | None:
    """As the program itself showed when the plan was made."""
    by = plan.checkpoint.resume_by
    return ResumeRule(ResumeBy(by)) if by in (ResumeBy.AGAIN, ResumeBy.INSIDE) else None


def asked_arguments(layout: RunLayout) -> tuple[str, ...]:
    """Return the arguments given with the last `runs resume ID -- ARGS`, if the run's own journal is here."""
    given: tuple[str, ...] = ()
    for event in read_journal(layout.journal):
        arguments = event.fields.get("arguments")
        if event.name == "resumed" and isinstance(arguments, list) and arguments:
            given = tuple(map(str, arguments))
    return given


def _newest_own(layout: RunLayout, node: str) -> _Saved | None:
    """The newest that this run saved and that is still complete."""
    known = journaled_checkpoints(read_journal(layout.node(node).journal))
    for saved in sorted(known.values(), key=lambda saved: saved.changed, reverse=True):
        found = look_at(Path(saved.path))
        if found is not None and not found.incomplete:
            return _Saved(saved.path, saved.step, saved.kind, saved.other)
    return None


def _asked(path: Path) -> _Saved | None:
    """The checkpoint that checkpoint.resume names; None if it is one of Torchdeck's own."""
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
