"""Empty state of the list of checkpoints."""

from __future__ import annotations

from pathlib import Path

from torchdeck.contract.plan.launch_plan import WATCHED
from torchdeck.runs.view import RunView
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.panel import EmptyState

_TO_COME = "Checkpoints appear here when a save begins: at intervals, and at a stop."
_ENDED = "This run ended before its first save, so there is nothing to continue from: a clone starts over."
_UNNOTICED = (
    "{path} was written after the run started, but its agent did not notice it. If this run saved it, clone "
    "the run with checkpoint.resume set to this path to continue from it."
)
_SCRIPT = "What a script saves by itself appears here as soon as it is complete, wherever it puts it."


class NoCheckpoints(EmptyState):
    """Empty state that tells whether there will be a checkpoint, by the run's kind and state."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(theme, "save", "No checkpoints", _TO_COME)
        self._unnoticed: Path | None = None
        self._view: RunView | None = None

    def show_unnoticed(self, path: Path | None) -> None:
        """Name the checkpoint that the script saved and its agent did not notice."""
        self._unnoticed = path
        if self._view is not None:
            self.show_view(self._view)

    def show_view(self, view: RunView) -> None:
        """Show the run's current state."""
        self._view = view
        if self._unnoticed is not None:
            self.set_title("No checkpoint is listed")
            self.set_sentence(_UNNOTICED.format(path=self._unnoticed))
            return
        self.set_title("No checkpoints")
        if view.kind in ("script", "module", WATCHED):
            self.set_sentence(_SCRIPT)
        else:
            self.set_sentence(_ENDED if view.is_over else _TO_COME)
