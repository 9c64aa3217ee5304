"""Which runs have ended since the last look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torchdeck.runs.state import RunState
from torchdeck_app.widgets.state_badge import LOOKS

if TYPE_CHECKING:  # it imports much, and the first paint waits for nothing
    from torchdeck.runs.run_list import RunEntry


class Endings:
    """Compares one look at the runs with the one before. What had ended before `opened` is never told."""

    def __init__(self, opened: float) -> None:
        """Args:
        opened: when the window was opened, in seconds since the epoch.
        """
        self._opened = opened
        self._live: set[str] = set()
        self._told: dict[str, float | None] = {}

    def new_in(self, entries: Sequence[RunEntry]) -> list[RunEntry]:
        """Runs that are over now and were not at the last look, or came and went between two."""
        found = []
        for entry in entries:
            view = entry.view
            if view is None:
                continue
            if not view.is_over:
                self._live.add(entry.id)
                continue
            was_live = entry.id in self._live
            self._live.discard(entry.id)
            ended_since = view.ended is not None and view.ended >= self._opened
            is_news = was_live or (ended_since and self._told.get(entry.id, -1.0) != view.ended)
            if is_news:
                self._told[entry.id] = view.ended
                found.append(entry)
        return found


def ending_text(entry: RunEntry) -> str:
    """`quickstart succeeded`, `big failed: rank 1 exited with code 1`; long reasons are cut."""
    if entry.view is None:
        return entry.name
    state = entry.view.state
    word = "was stopped" if state is RunState.CANCELLED else LOOKS[state].word
    if state is RunState.LOST:
        word = "is lost"
    why = entry.view.why if state in (RunState.FAILED, RunState.LOST) else ""
    first = why.strip().splitlines()[0] if why.strip() else ""
    if len(first) > 160:
        first = first[:159].rstrip() + "…"
    return f"{entry.name} {word}" + (f": {first}" if first else "")
