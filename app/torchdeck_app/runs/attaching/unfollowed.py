"""Runs that no local controller follows: their state is as old as the last report of their nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchdeck.quantities import ago
from torchdeck_app.widgets.state_badge import LOOKS

if TYPE_CHECKING:
    from torchdeck.runs.view import RunView


def is_unfollowed(view: RunView | None) -> bool:
    """Return whether no local process knows if the run continues."""
    return view is not None and view.followed_until is not None


def last_known(view: RunView, now: float) -> str:
    """Return the last known state at `now` (unix seconds): `running when it was heard of last, 3 min ago`.

    Empty if the run is followed or over.
    """
    if view.followed_until is None:
        return ""
    heard = ago(max(0.0, now - view.followed_until))
    return f"{LOOKS[view.state].word} when it was heard of last, {heard}"
