"""Progress of a run while it is live."""

from __future__ import annotations

from typing import Any

from support.cli.command import Command
from support.waiting import wait_until
from torchdeck.runs.follower import read_run
from torchdeck.runs.training_progress import ProgressReader


def live_progress(command: Command, seconds: float = 30) -> dict[str, Any]:
    """Progress in the run list of the one run of this home, once it has a total and the time left."""
    run = command.the_run()

    def known() -> bool:
        progress = ProgressReader(run).read(read_run(run))
        return progress is not None and None not in (progress.total, progress.eta)

    def found() -> dict[str, Any] | None:
        (row,) = command.json("runs", "list")
        progress: dict[str, Any] = row["progress"] or {}
        is_known = None not in (progress.get("total"), progress.get("eta"))
        return progress if is_known and row["state"] == "RUNNING" else None

    # here first: a command takes a quarter of a second of a processor that the training needs
    wait_until(known, seconds, "total and time left")
    progress = wait_until(found, seconds, "a running run with total and time left", every=0.2)
    assert progress is not None
    assert progress["eta"] > 0
    assert 0 < progress["step"] <= progress["total"]
    return progress
