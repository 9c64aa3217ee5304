"""Filter of the table: words or an expression, and groups of states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from torchdeck.runs.query.expression import Expression, QueryError, is_expression, parsed
from torchdeck.runs.run_list import RunEntry
from torchdeck.runs.run_state import RunState
from torchdeck.runs.table.row import Row

UNFOLLOWED = "unknown"
"""Group of runs that no process here follows: their current state is unknown."""
STATE_GROUPS: Mapping[str, frozenset[RunState | None]] = {
    "live": frozenset(
        {RunState.PREPARING, RunState.STARTING, RunState.RUNNING, RunState.STOPPING, RunState.RESTARTING}
    ),
    UNFOLLOWED: frozenset(),
    "queued": frozenset({RunState.PENDING, RunState.QUEUED}),
    "succeeded": frozenset({RunState.SUCCEEDED}),
    "failed": frozenset({RunState.FAILED, RunState.LOST, None}),
    "cancelled": frozenset({RunState.CANCELLED}),
}
"""States that are shown or hidden together; None stands for a run that cannot be read."""
_GROUPS: Mapping[RunState | None, tuple[str, ...]] = {
    state: tuple(group for group, states in STATE_GROUPS.items() if state in states)
    for state in (None, *RunState)
}
ARCHIVED = "archived"
"""Key of expressions that ask for archived runs, which are hidden otherwise."""


@dataclass(frozen=True)
class RunFilter:
    """All words of `text` occur in the run, or it fulfils the expression that `text` is. Its state is in one
    of `groups` if any is given. Archived runs are hidden unless `archived` or an expression asks for them.
    """

    text: str = ""
    groups: frozenset[str] = frozenset()
    archived: bool = False

    @property
    def is_empty(self) -> bool:
        return not self.text.strip() and not self.groups

    def takes(self, row: Row) -> bool:
        """Return whether the run is shown."""
        if row.note.archived and not self.archived and ARCHIVED not in self.names:
            return False
        if self.groups and not any(group in self.groups for group in groups_of(row.entry)):
            return False
        if is_expression(self.text):
            query = _query(self.text)
            return isinstance(query, QueryError) or query.matches(row.values)
        words = self.text.lower().split()
        return not words or all(word in _searched(row) for word in words)

    @property
    def problem(self) -> str:
        """Return why `text` is no expression though it has a comparison; all runs are shown then."""
        query = _query(self.text) if is_expression(self.text) else None
        return str(query) if isinstance(query, QueryError) else ""

    @property
    def names(self) -> frozenset[str]:
        """Return the keys that the expression asks for."""
        query = _query(self.text) if is_expression(self.text) else None
        return frozenset() if query is None or isinstance(query, QueryError) else query.names


@lru_cache(maxsize=8)
def _query(text: str) -> Expression | QueryError:
    try:
        return parsed(text)
    except QueryError as error:
        return error


def groups_of(entry: RunEntry) -> tuple[str, ...]:
    """Return the groups of states that a run is in; none if it was not read yet."""
    if entry.view is None and not entry.is_unreadable:
        return ()
    if entry.view is not None and entry.view.followed_until is not None:
        return (UNFOLLOWED,)
    return _GROUPS[entry.state]


def _searched(row: Row) -> str:
    entry, view = row.entry, row.entry.view
    parts = [entry.id, entry.name, row.note.name, *row.note.tags, row.note.text, entry.why]
    if view is not None:
        parts += [view.target, view.strategy, view.state.value, view.kind]
    return " ".join(parts).lower()
