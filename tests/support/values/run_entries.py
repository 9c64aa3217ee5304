"""Entries of the list of runs, by values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.values.histories import (
    ALIVE,
    DEAD,
    agent_started,
    controller_journal,
    ended,
    finished,
    fold,
    running_run,
    started,
)
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.run_list import RunEntry
from torchdeck.runs.training_progress import TrainingProgress
from torchdeck.runs.view import RunView

NOW = 200.0
DONE = [agent_started(), started(), ended(), finished()]
FAILED = [agent_started(), started(), ended(outcome="failed"), finished("FAILED", why="rank 1 failed")]


def run_id(number: int, name: str = "gpt") -> str:
    return f"20261121T{number:06d}Z-{name}-{number:06x}"


def live_view(id_: str) -> RunView:
    return fold(id_, controller_journal(), {"localhost": running_run()}, {}, ALIVE, NOW)


def over_view(id_: str, events: Any = None) -> RunView:
    return fold(id_, controller_journal(), {"localhost": DONE if events is None else events}, {}, DEAD, NOW)


def entry(number: int = 1, view: RunView | None = None, **fields: Any) -> RunEntry:
    """An entry of a run that has succeeded, unless `view` is of another."""
    id_ = run_id(number)
    made = over_view(id_) if view is None and "why" not in fields else view
    return RunEntry(id_, RunLayout(Path("/runs") / id_), made, **fields)


def progress(step: int | None = 100, total: int | None = 2000, **fields: Any) -> TrainingProgress:
    return TrainingProgress("training", step, total, **fields)
