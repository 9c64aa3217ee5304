"""Progress messages of `torchdeck runs stop`."""

from __future__ import annotations

import time
from collections.abc import Callable

from torchdeck.runs.links import UP, Links
from torchdeck.runs.state import RunState
from torchdeck.runs.view import RunView

AFTER = 2.0
"""Seconds before anything is printed: most runs stop sooner."""


class StopNotes:
    """Prints each new thing that the stop waits for."""

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._due = clock() + AFTER
        self._said = ""

    def look(self, view: RunView, links: Links | None) -> None:
        """Update; called repeatedly while the run is waited for."""
        text = waits_for(view, links, time.time())
        if text != self._said and self._clock() >= self._due:
            self._said = text
            self._say(text)


def waits_for(view: RunView, links: Links | None, now: float) -> str:
    """Describe what a stop of the run waits for; `now` in unix seconds."""
    if view.is_over:
        nodes = ", ".join(view.nodes_alone)
        return f"waiting for ranks to end on {nodes}, which continue without the leading node"
    if not view.controller_alive:
        return "waiting for a controller of the run to start"
    fresh = {} if links is None or not links.is_fresh(now) else links.nodes
    away = [f"{state.node} ({state.why or state.state})" for state in fresh.values() if state.state != UP]
    what = view.why if view.state is RunState.STOPPING else "it has not taken the request yet"
    unreached = f"; not reached: {', '.join(away)}" if away else ""
    return f"waiting for the run to end: {what}{unreached}"
