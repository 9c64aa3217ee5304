"""Trainings that Torchdeck did not start: imported, only watched, or jobs of Slurm."""

from __future__ import annotations

from torchdeck.contract.plan.launch_plan import WATCHED
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.view import RunView

NO_RUN_FILE = "# Torchdeck did not start this training: it has no run file.\n"


def why_no_start(view: RunView) -> str:
    """Return why the run cannot be resumed or cloned, as a clause; empty if Torchdeck started it."""
    if not view.is_foreign:
        return ""
    if view.job:
        return f"an exported script started {view.name}, as job {view.job} of Slurm"
    why = "is only watched" if view.kind == WATCHED else "was imported"
    return f"Torchdeck did not start {view.name}: it {why}"


def how_again(view: RunView) -> str:
    """Return how a run that Torchdeck did not start is started again."""
    if view.job:
        return "submit the script again with the same RUN_DIR; it continues from the newest checkpoint"
    return "start its program again where it was started"


def refuse_start(view: RunView) -> None:
    """Raise Refusal if a run cannot be resumed or cloned, as Torchdeck did not start it."""
    if why := why_no_start(view):
        raise Refusal(why, fix=how_again(view))


def refuse_stop(view: RunView) -> None:
    """Raise Refusal if Torchdeck only watches a run."""
    if view.kind == WATCHED:
        raise Refusal(
            f"{why_no_start(view)}, and cannot be stopped from here",
            fix=f"stop it if it was started; `torchdeck watch --end {view.id}` ends the watch",
        )
