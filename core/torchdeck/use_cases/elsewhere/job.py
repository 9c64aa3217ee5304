"""Runs that an exported script started under Slurm: shown from their folder, and stopped through it."""

from __future__ import annotations

from pathlib import Path

from torchdeck.contract.atomic import write_bytes
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.folders.job_folder import add_job, is_job_folder
from torchdeck.runs.home import torchdeck_home
from torchdeck.runs.view import RunView

__all__ = ["ask_job", "attach_job", "is_job_folder"]


def attach_job(folder: Path, home: Path | None = None) -> RunLayout:
    """Return the run that shows the job with this run directory; raises as `add_job`, and HomeError."""
    return add_job(folder, torchdeck_home(home))


def ask_job(layout: RunLayout, view: RunView, *, now: bool) -> None:
    """Ask the ranks of a job to save and end, by the file that they look for.

    Args:
        layout: its run.
        view: the state of the run.
        now: without saving, which only Slurm can do.

    Raises:
        Refusal: the job waits in Slurm's queue, is to end at once, or its folder cannot be written.
    """
    if now or view.attempt is None or not view.agent_alive:
        raise Refusal(
            f"only Slurm can end run {view.id} now", fix=f"`scancel {view.job}` on the cluster ends the job"
        )
    try:
        write_bytes(layout.attempt(view.attempt).stop, b"")
    except OSError as error:
        raise Refusal(
            "the job cannot be asked to stop",
            error.strerror or error,
            f"`scancel --batch --signal=TERM {view.job}` on the cluster does it",
        ) from error
