"""Goodput of a script whose trainer has callbacks."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from support.values.histories import agent_started, created, event, finished, started
from support.values.made_runs import make_run
from torchdeck.contract.run_states import RankPhase
from torchdeck.runs.follower import read_run
from torchdeck.runs.goodput.reading import read_goodput
from torchdeck.runs.goodput.uses import Use
from torchdeck.trainers.inside.report import Report


class Clock:
    """Stands in for the module `time` of what writes; only the test moves it."""

    time_ns = staticmethod(time.time_ns)

    def __init__(self) -> None:
        self.now = 110.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


@pytest.mark.parametrize("logs", [True, False])
def test_saves_of_callbacks_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, logs: bool
) -> None:
    """From the beginning of the phase to the next; the rows of saves are no steps."""
    ends = [event("attempt_ended", 150.0, attempt=1, outcome="succeeded", first_failure=None, killed=0)]
    run = make_run(tmp_path, [created(100.0)], [agent_started(), started(1, 101.0), *ends, finished()])
    clock = Clock()
    for module in ("torchdeck.trainers.inside.report", "torchdeck.telemetry.writer"):
        monkeypatch.setattr(f"{module}.time", clock)
    rank = run.attempt(1).rank(0)
    rank.root.mkdir(parents=True)
    report = Report(rank)
    for step in (1, 2):
        report.step(step, 2)
        if logs:
            report.metrics({"loss": 0.5}, step)
        clock.now += 10.0
        report.enter(RankPhase.SAVING)
        clock.now += 4.0
        report.enter(RankPhase.SAVING)  # it continues
        clock.now += 3.0
        report.enter(RankPhase.TRAINING)
    found = read_goodput(run, read_run(run))
    assert (found is not None) is logs
    assert found is None or found.seconds[Use.SAVE] == pytest.approx(14.0)
