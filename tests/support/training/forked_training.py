"""Recipe runs whose ranks are forked where torch is imported already: quick, many after each other."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.ranks.measured_ranks import Job, measure
from support.ranks.recipe_ranks import FinishedRanks
from torchdeck.contract.layout import RunLayout


@dataclass(frozen=True)
class ForkedRun:
    """One attempt of a recipe run."""

    run_dir: Path
    settings: Mapping[str, Any]
    """As `recipe_settings` makes them."""
    world_size: int = 1
    attempt: int = 1
    resume: str = ""


def run_forked(*runs: ForkedRun, python: str = sys.executable) -> list[FinishedRanks]:
    """Each run under `python` after the one before, which a later one may resume from."""
    jobs = [
        {
            "settings": dict(run.settings),
            "run_dir": str(run.run_dir),
            "world_size": run.world_size,
            "attempt": run.attempt,
            "resume": run.resume,
        }
        for run in runs
    ]
    found = measure("support.training.forked_training:train", jobs, python=python)
    return [_finished(run, ranks) for run, ranks in zip(runs, found, strict=True)]


def _finished(run: ForkedRun, ranks: Sequence[Mapping[str, Any]]) -> FinishedRanks:
    codes, stdout, stderr = ([rank[name] for rank in ranks] for name in ("code", "stdout", "stderr"))
    return FinishedRanks(RunLayout(run.run_dir), run.attempt, codes, stdout, stderr)


def train(job: Job) -> dict[str, Any]:
    """In a forked rank: what `python -m torchdeck.distributed.entry` does."""
    from torchdeck.distributed import entry

    run_dir = Path(job["run_dir"])
    os.environ.update(
        TORCHDECK_RECIPE=json.dumps(job["settings"]),
        TORCHDECK_RUN_ID=run_dir.name,
        TORCHDECK_RUN_DIR=str(run_dir),
        TORCHDECK_ATTEMPT=str(job["attempt"]),
        TORCHDECK_RESUME=job["resume"],
    )
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        code = entry.main()
    return {"code": code, "stdout": stdout.getvalue(), "stderr": stderr.getvalue()}
