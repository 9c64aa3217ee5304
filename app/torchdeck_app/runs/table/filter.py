"""Filter of the run list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torchdeck.runs.run_list import RunEntry
from torchdeck.runs.state import RunState
from torchdeck_app.runs.attaching.unfollowed import is_unfollowed
from torchdeck_app.runs.table.columns import Row


@dataclass(frozen=True)
class Group:
    """States that are shown or hidden together."""

    key: str
    sign: str
    words: str
    colour: str
    states: frozenset[RunState | None]
    """None stands for a run that cannot be read."""


UNFOLLOWED = Group("unknown", "?", "unknown: no one follows them here", "warn", frozenset())
"""Runs whose current state is unknown; most users never have one."""
GROUPS = (
    Group(
        "live",
        "●",
        "running, starting or stopping",
        "busy",
        frozenset(
            {
                RunState.PREPARING,
                RunState.STARTING,
                RunState.RUNNING,
                RunState.STOPPING,
                RunState.RESTARTING,
            }
        ),
    ),
    UNFOLLOWED,
    Group("queued", "◷", "queued or pending", "quiet", frozenset({RunState.PENDING, RunState.QUEUED})),
    Group("succeeded", "✓", "succeeded", "good", frozenset({RunState.SUCCEEDED})),
    Group(
        "failed", "✕", "failed, lost or unreadable", "bad", frozenset({RunState.FAILED, RunState.LOST, None})
    ),
    Group("cancelled", "○", "cancelled", "quiet", frozenset({RunState.CANCELLED})),
)


@dataclass(frozen=True)
class RunFilter:
    """Filter: all words of `text` occur in the run, and its state is in one of `groups` if any is given."""

    text: str = ""
    groups: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        return not self.text.strip() and not self.groups

    def takes(self, row: Row) -> bool:
        """Return whether the run is shown."""
        if self.groups and not any(group.key in self.groups for group in groups_of(row.entry)):
            return False
        words = self.text.lower().split()
        return not words or all(word in _searched(row) for word in words)


def groups_of(entry: RunEntry) -> tuple[Group, ...]:
    """Return the groups of a run; none if it was not read yet."""
    if entry.view is None and not entry.is_unreadable:
        return ()
    if is_unfollowed(entry.view):
        return (UNFOLLOWED,)
    return tuple(group for group in GROUPS if entry.state in group.states)


def counts(entries: Iterable[RunEntry]) -> dict[str, int]:
    """Return the number of runs in each group, by its key."""
    found = dict.fromkeys((group.key for group in GROUPS), 0)
    for entry in entries:
        for group in groups_of(entry):
            found[group.key] += 1
    return found


def _searched(row: Row) -> str:
    entry, view = row.entry, row.entry.view
    parts = [entry.id, entry.name, *row.note.tags, row.note.text, entry.why]
    if view is not None:
        parts += [view.target, view.strategy, view.state.value, view.kind]
    return " ".join(parts).lower()
