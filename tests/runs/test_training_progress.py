"""How far a run is and how long it continues: by what is on disk."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from support.values.histories import ALIVE, DEAD, controller_journal, ended, fold, running_run
from support.values.metrics import opened, segment_path, write_columns, write_rows
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.progress import ProgressFile
from torchdeck.metrics.pace import seconds_a_step
from torchdeck.runs.training_progress import ProgressReader, time_left, total_steps


def write_plan(run: Path, steps: object) -> None:
    RunLayout(run).plan.write_text(json.dumps({"batch": {"steps": steps}}), encoding="utf-8")


def write_progress(run: Path, attempt: int, total: int | None) -> None:
    file = ProgressFile(RunLayout(run).attempt(attempt).rank(0).progress)
    file.report("training", 7, total=total)
    file.close()


def test_a_run_that_is_over_keeps_its_total(tmp_path: Path) -> None:
    """A reader that never saw a heartbeat of it: the plan has it."""
    write_rows(tmp_path, [(222, {"loss": 2.0})])
    write_plan(tmp_path, 2000)
    over = fold("r", controller_journal(), {"localhost": [*running_run(), ended(1)]}, {}, DEAD, 110.0)
    progress = ProgressReader(RunLayout(tmp_path)).read(over)
    assert progress is not None
    assert (progress.step, progress.total, progress.eta) == (222, 2000, None)


def test_what_the_newest_attempt_wrote_counts_before_the_plan(tmp_path: Path) -> None:
    write_plan(tmp_path, 2000)
    write_progress(tmp_path, 1, 500)
    assert total_steps(RunLayout(tmp_path)) == 500
    write_progress(tmp_path, 2, 700)
    assert total_steps(RunLayout(tmp_path)) == 700
    write_progress(tmp_path, 3, None)
    assert total_steps(RunLayout(tmp_path)) == 700


@pytest.mark.parametrize("steps", [None, "9", True, -1, [3]])
def test_a_plan_without_steps_has_no_total(tmp_path: Path, steps: object) -> None:
    assert total_steps(RunLayout(tmp_path)) is None
    write_plan(tmp_path, steps)
    assert total_steps(RunLayout(tmp_path)) is None
    RunLayout(tmp_path).plan.write_text('{"batch": null}', encoding="utf-8")
    assert total_steps(RunLayout(tmp_path)) is None


def write_times(run: Path, durations: np.ndarray) -> None:
    """A row of `step_time` a step; each step took its duration in seconds."""
    count = len(durations)
    write_columns(
        segment_path(run),
        {"step_time": durations},
        steps=np.arange(1, count + 1),
        times=1000.0 + np.cumsum(durations),
    )


def test_the_time_left_does_not_jump_with_one_step(tmp_path: Path) -> None:
    """Steps differ by a factor of three; what is left differs by a few parts in a hundred."""
    durations = np.random.default_rng(3).uniform(0.5, 1.5, 600)
    guesses = []
    for number in range(300, 600, 10):
        run = tmp_path / str(number)
        write_times(run, durations[:number])
        write_plan(run, 2000)
        live = fold("r", controller_journal(), {"localhost": running_run()}, {}, ALIVE, 110.0)
        progress = ProgressReader(RunLayout(run)).read(live)
        assert progress is not None
        assert progress.eta is not None
        guesses.append(progress.eta / (2000 - number))
    assert min(guesses) > 0.95
    assert max(guesses) < 1.05


def test_the_pace_follows_the_last_minutes(tmp_path: Path) -> None:
    """What was long ago does not count; an evaluation does; an hour in which the machine slept does not."""
    write_times(tmp_path / "faster", np.concatenate([np.full(500, 9.0), np.full(400, 1.0)]))
    assert seconds_a_step(opened(tmp_path / "faster"), "step_time", 0) == pytest.approx(1.0)
    durations = np.full(1000, 0.1)
    durations[99::100] = 5.1
    write_times(tmp_path / "evaluated", durations)
    assert seconds_a_step(opened(tmp_path / "evaluated"), "step_time", 0) == pytest.approx(0.15, rel=0.05)
    durations = np.full(1000, 1.0)
    durations[-3] = 3600.0
    write_times(tmp_path / "slept", durations)
    slept = seconds_a_step(opened(tmp_path / "slept"), "step_time", 0)
    assert slept is not None
    assert slept < 5.0


def test_one_row_has_no_pace(tmp_path: Path) -> None:
    write_times(tmp_path, np.array([1.0]))
    assert seconds_a_step(opened(tmp_path), "step_time", 0) is None
    assert seconds_a_step(opened(tmp_path), "loss", 0) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (42.4, "42 s"),
        (120.0, "2 min 0 s"),
        (599.4, "9 min 59 s"),
        (600.0, "10 min"),
        (2234.0, "37 min"),
        (3599.0, "1 h 0 min"),
        (3900.0, "1 h 5 min"),
        (1e6, "11 d 13 h"),
    ],
)
def test_a_remaining_time_says_no_more_than_is_known(seconds: float, text: str) -> None:
    assert time_left(seconds) == text
