"""Checkpoints of a program, as the agent journaled them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from torchdeck.contract.journal import Event
from torchdeck.trainers.checkpoints.checkpoint_kinds import CheckpointKind

SAVED, GONE = "checkpoint", "checkpoint_gone"
"""Events. The first is also that of a recipe's checkpoints, which have no kind."""


class JournaledCheckpoint(NamedTuple):
    """A complete checkpoint of a program, with the fields of its event."""

    step: int | None
    """Optimizer steps in it; None if neither its name nor the program's progress says so."""
    path: str
    seconds: float
    """0: how long the save took is unknown."""
    size: int
    """Bytes."""
    kind: CheckpointKind
    changed: float
    """Unix time of the save."""
    about: bool = False
    """The step is the one that the ranks had reported at that time."""
    other: str = ""
    """Another run that worked in the same folder then and may have saved it; empty if none did."""


def journaled_checkpoints(events: Iterable[Event]) -> dict[str, JournaledCheckpoint]:
    """Return path → the last save there, oldest first, without those that were deleted since."""
    found: dict[str, JournaledCheckpoint] = {}
    for event in events:
        path = event.fields.get("path")
        if event.name == GONE and isinstance(path, str):
            found.pop(path, None)
        elif event.name == SAVED and (saved := checkpoint_of(event)) is not None:
            found.pop(saved.path, None)
            found[saved.path] = saved
    return found


def checkpoint_of(event: Event) -> JournaledCheckpoint | None:
    """Return the checkpoint of a program in a `checkpoint` event; None if it is a recipe's."""
    fields = event.fields
    path, step, size, changed = (fields.get(name) for name in ("path", "step", "size", "changed"))
    other = fields.get("other")
    try:
        kind = CheckpointKind(fields.get("kind"))
    except ValueError:
        return None
    if not isinstance(path, str):
        return None
    return JournaledCheckpoint(
        step if isinstance(step, int) else None,
        path,
        0.0,
        size if isinstance(size, int) else 0,
        kind,
        float(changed) if isinstance(changed, (int, float)) else event.time,
        fields.get("about") is True,
        other if isinstance(other, str) else "",
    )
