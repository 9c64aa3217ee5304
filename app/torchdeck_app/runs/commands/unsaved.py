"""Steps that are lost when a run's processes end: those without a checkpoint."""

from __future__ import annotations

from torchdeck.runs.state import RunState
from torchdeck.runs.training_progress import TrainingProgress
from torchdeck.runs.view import RunView
from torchdeck_app.runs.commands.abilities import RunCommand


def unsaved_steps(view: RunView, progress: TrainingProgress | None) -> int:
    """Return the steps since the newest complete checkpoint; all without one, 0 if no step is known."""
    if view.is_over or progress is None or progress.step is None:
        return 0
    return max(0, progress.step - _saved(view, progress))


def what_is_lost(view: RunView, progress: TrainingProgress | None) -> str:
    """Return a sentence without its period: `32 steps since the checkpoint of step 100 are lost`."""
    steps = unsaved_steps(view, progress)
    if not steps or progress is None:
        return "what came after the last checkpoint is lost"
    saved = _saved(view, progress)
    if not saved:
        return "every step since its start is lost, as there is no checkpoint"
    since = f"since the checkpoint of step {saved:,}"
    return f"1 step {since} is lost" if steps == 1 else f"{steps:,} steps {since} are lost"


def is_being_saved(view: RunView, asked: frozenset[str] = frozenset()) -> bool:
    """Return whether a stop is pending or running, after which nothing would be lost."""
    return view.state is RunState.STOPPING or RunCommand.STOP in {*view.requests_waiting, *asked}


def _saved(view: RunView, progress: TrainingProgress) -> int:
    known = [progress.checkpoint_step, None if view.checkpoint is None else view.checkpoint.step]
    return max((step for step in known if step is not None), default=0)
