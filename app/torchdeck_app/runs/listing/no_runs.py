"""Empty state of the list, which explains runs."""

from __future__ import annotations

from collections.abc import Callable

from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.panel import EmptyState

_SENTENCE = (
    "A run is one launch of a configuration. It appears here with its loss, its plots and its logs, "
    "however it was started."
)


def no_runs(theme: Theme, pressed: Callable[[], None]) -> EmptyState:
    """Create the empty state that explains runs, with a button that leads to Launch."""
    return EmptyState(theme, "runs", "No runs yet", _SENTENCE, button="Go to Launch", pressed=pressed)
