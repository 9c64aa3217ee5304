"""Moments of a run's timeline that its plots mark."""

from __future__ import annotations

from collections.abc import Iterable

from torchdeck.runs.timeline import Happening
from torchdeck_app.runs.plots.marks import Mark, MarkKind

_KINDS: dict[str, MarkKind] = {"attempt_started": "attempt", "checkpoint": "checkpoint"}


def marks_of(happenings: Iterable[Happening]) -> tuple[Mark, ...]:
    """Starts of attempts, saved checkpoints, and failures."""
    found = []
    for each in happenings:
        kind = _KINDS.get(each.event)
        details = dict(each.details)
        if each.event == "attempt_ended" and details.get("outcome") == "failed":
            kind = "failure"
        if kind is not None:
            step = details.get("resume_step" if kind == "attempt" else "step", "")
            found.append(Mark(each.time, int(step) if step.isdecimal() else None, kind, each.text))
    return tuple(found)
