"""A rank of a script, as it reports or does not."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import pytest

from torchdeck.agent.own_clock import OwnClock
from torchdeck.agent.ranks.rank_watch import STARTED, RankWatch
from torchdeck.contract.doctor.rank_heartbeat import RankHeartbeat, RankHeartbeatFile
from torchdeck.contract.layout import AttemptLayout, RunLayout
from torchdeck.contract.metrics.inside_state import InsideState, write_inside_state
from torchdeck.contract.metrics.progress import ProgressFile
from torchdeck.contract.run_states import RankPhase
from torchdeck.telemetry.writer import MetricsWriter
from torchdeck.trainers.reading import Reading


@pytest.fixture
def attempt(tmp_path: Path) -> AttemptLayout:
    """One rank, which was just started."""
    found = RunLayout(tmp_path).attempt(1)
    found.rank(0).root.mkdir(parents=True)
    found.rank(0).holder.write_text(str(os.getpid()))
    return found


def phase_of(watch: RankWatch) -> RankPhase:
    watch.look()
    return watch.states[0].phase


def test_it_runs_once_its_own_code_does(attempt: AttemptLayout) -> None:
    """A later import is no new start; it has not trained, as far as is known."""
    watch = RankWatch(attempt, [0], OwnClock(), watched={0: os.getpid()})
    file = RankHeartbeatFile(attempt.rank(0).heartbeat)
    file.write(RankHeartbeat(1, 1.0, activity="importing", place="train.py:3 <module>"))
    assert phase_of(watch) is RankPhase.STARTING
    file.write(RankHeartbeat(1, 2.0, place="train.py:30 main"))
    assert phase_of(watch) is RankPhase.RUNNING
    file.write(RankHeartbeat(1, 3.0, activity="importing", place="train.py:31 main"))
    assert phase_of(watch) is RankPhase.RUNNING
    assert watch.trained == {}
    file.close()


def test_without_a_heartbeat_its_age_tells(attempt: AttemptLayout) -> None:
    watch = RankWatch(attempt, [0], OwnClock(), watched={0: os.getpid()})
    assert phase_of(watch) is RankPhase.STARTING
    began = time.time() - STARTED - 1
    os.utime(attempt.rank(0).holder, (began, began))
    os.utime(attempt.rank(0).root, (began, began))
    assert phase_of(watch) is RankPhase.RUNNING
    folder = RankWatch(attempt, [0], OwnClock(), watched={0: 0})
    assert phase_of(folder) is RankPhase.STARTING, "no process is known"


def test_the_epoch_is_that_of_the_callbacks(attempt: AttemptLayout) -> None:
    """A file that is written at saves only has an older one."""
    rank = attempt.rank(0)
    write_inside_state(rank.inside, InsideState(trainer="Hugging Face Trainer"))
    with contextlib.closing(ProgressFile(rank.progress)) as progress:
        progress.report(RankPhase.TRAINING, 242, total=6000)
    watch = RankWatch(attempt, [0], OwnClock(), watched={0: os.getpid()})
    watch.scripts[0].take(Reading(step=200, epoch=1.6), "file", "trainer_state.json")
    MetricsWriter(rank.metrics, source="inside").log({"loss": 4.5, "epoch": 1.92}, step=240)
    watch.look()
    assert watch.scripts[0].state.epoch == 1.92
    watch.scripts[0].take(Reading(step=200, epoch=1.6), "file", "trainer_state.json")
    assert watch.scripts[0].state.epoch == 1.92


def test_rows_of_the_callbacks_do_not_set_the_step_back(attempt: AttemptLayout) -> None:
    """They come every tenth step; the pace is that of the steps."""
    rank, clock = attempt.rank(0), time.time()
    write_inside_state(rank.inside, InsideState(trainer="Hugging Face Trainer"))
    watch = RankWatch(attempt, [0], OwnClock(), watched={0: os.getpid()})
    with contextlib.closing(ProgressFile(rank.progress)) as progress:
        for step in range(10, 40):
            progress.report(RankPhase.TRAINING, step, total=6000)
            if step % 10 == 0:
                MetricsWriter(rank.metrics, source="inside").log({"loss": 4.5}, step=step, at=clock + step)
            watch.look()
            assert watch.scripts[0].state.step == step
