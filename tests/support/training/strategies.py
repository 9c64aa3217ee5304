"""One training under each strategy, whole and stopped half way: exactly the same losses after the resume."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.ranks.recipe_ranks import FinishedRanks
from support.training.forked_training import ForkedRun, run_forked

STRATEGIES = [
    pytest.param(("ddp", "fsdp"), id="ddp, fsdp"),
    pytest.param(("ddp", "single"), id="single", marks=pytest.mark.soak),
    pytest.param(("ddp", "hsdp"), id="hsdp", marks=pytest.mark.soak),
]
"""Pairs that have equal losses."""
RANKS = {"single": 1}
"""Strategy → ranks, if not two."""

Settings = Callable[[Path, str, int, int], dict[str, Any]]
"""(folder of the run, strategy, ranks, steps) → settings, whose batch is the same for any number of ranks."""


def resumed_exactly(
    folder: Path, strategy: str, settings: Settings, steps: int, *, python: str = sys.executable
) -> FinishedRanks:
    """Train all `steps`, and half of them and then the rest; the losses are equal in all digits."""
    ranks = RANKS.get(strategy, 2)
    whole, parted = folder / f"{strategy}-whole", folder / f"{strategy}-parted"
    saved = str(parted / "checkpoints" / "final")
    runs = run_forked(
        ForkedRun(whole, settings(whole, strategy, ranks, steps), ranks),
        ForkedRun(parted, settings(parted, strategy, ranks, steps // 2), ranks),
        ForkedRun(parted, settings(parted, strategy, ranks, steps), ranks, attempt=2, resume=saved),
        python=python,
    )
    losses = [run.succeeded().losses() for run in runs]
    assert {**losses[1], **losses[2]} == losses[0]
    assert list(losses[0]) == list(range(1, steps + 1))
    return runs[0]
