"""The room of a run's checkpoints while there is none."""

from __future__ import annotations

from torchdeck.runs.view import RunView
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.empty_state import EmptyState

_TO_COME = "A checkpoint appears here as soon as a save begins: every so often, and at a stop."
_ENDED = "This run ended before its first save, so there is nothing to go on from: a clone begins anew."
_SCRIPT = (
    "What a script saves by itself lies where it puts it. Checkpoints in the run's own folder appear here."
)


class NoCheckpoints(EmptyState):
    """Says whether there will be one, as the run's kind and state tell."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(theme, "save", "No checkpoints", _TO_COME)

    def show_view(self, view: RunView) -> None:
        """The run as of now."""
        if view.kind in ("script", "module"):
            self.set_sentence(_SCRIPT)
        else:
            self.set_sentence(_ENDED if view.is_over else _TO_COME)
