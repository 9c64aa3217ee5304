"""Rules on the job of an exported sbatch script."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.values.run_files import MINIMAL, load, only_problem


@pytest.mark.parametrize(
    ("time", "seconds"),
    [("2", 120), ("1:30", 90), ("0:02:05", 125), ("0-1", 3600), ("1-0:10", 87_000), ("0-0:00:30", 30)],
)
def test_ranks_are_asked_to_save_after_the_job_has_begun(tmp_path: Path, time: str, seconds: int) -> None:
    asked = f'slurm.time="{time}"'
    if seconds <= 65_535:
        problem = only_problem(tmp_path, MINIMAL, asked, f"slurm.save_before={seconds}")
        assert problem.path == "slurm.time"
        assert f"{seconds} s before the end of {time} is before the job begins" in problem.wrong
    before = min(seconds - 1, 65_535)
    assert load(tmp_path, MINIMAL, asked, f"slurm.save_before={before}").slurm.save_before == before


def test_a_job_without_a_limit_saves_at_any_time(tmp_path: Path) -> None:
    assert load(tmp_path, MINIMAL, 'slurm.time="0"').slurm.save_before == 120
