"""Steps that are lost when a run's processes end: those without a checkpoint."""

from __future__ import annotations

from pathlib import PurePath

from torchdeck.runs.training_progress import TrainingProgress
from torchdeck.runs.view import RunView


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
    seen = view.checkpoint
    if not saved and seen is not None:
        return f"what came after the checkpoint {PurePath(seen.path).name} is lost"
    if not saved:
        return "every step since its start is lost, as there is no checkpoint"
    about = "about " if seen is not None and seen.about and seen.step == saved else ""
    since = f"since the checkpoint of {about}step {saved:,}"
    return f"1 step {since} is lost" if steps == 1 else f"{steps:,} steps {since} are lost"


def lost_at_stop(view: RunView, progress: TrainingProgress | None) -> str:
    """Return what a script loses at a stop if it does not save then, as a sentence; empty for a recipe."""
    if view.kind not in ("script", "module") or view.is_over or not unsaved_steps(view, progress):
        return ""
    lost = what_is_lost(view, progress)
    return f"Unless the program saves when it is stopped, {lost}."


def _saved(view: RunView, progress: TrainingProgress) -> int:
    known = [progress.checkpoint_step, None if view.checkpoint is None else view.checkpoint.step]
    return max((step for step in known if step is not None), default=0)
