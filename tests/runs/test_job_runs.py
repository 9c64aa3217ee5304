"""Runs that exported jobs journal themselves: their state by journal and heartbeat, and what can be done."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from support.cli.command_here import CommandHere
from support.values.machines import plan
from torchdeck.contract.journal import JournalWriter
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.folders.deletion import StillAliveError, remove, set_aside
from torchdeck.runs.folders.job_folder import JobFolderError, add_job
from torchdeck.runs.follower import RunFollower, read_run
from torchdeck.runs.foreign import refuse_start
from torchdeck.runs.registry import RunRegistry, UnreadableRun
from torchdeck.runs.run_state import RunState
from torchdeck.use_cases.elsewhere.job import ask_job
from torchdeck.use_cases.stop import waits_for

BEGUN = 1_795_000_000.0


class Job:
    """The run directory of a job, written as the script writes it."""

    def __init__(self, folder: Path) -> None:
        self.layout = RunLayout(folder)
        self.layout.node("slurm").root.mkdir(parents=True)
        self.layout.attempt(1).rank(0).root.mkdir(parents=True)
        self.layout.plan.write_text(json.dumps(plan().document()))
        with JournalWriter(self.layout.journal) as journal:
            journal.append("created", t=BEGUN, name="My run", kind="script", world_size=1, scheduler="slurm")
        self.event("attempt_started", attempt=1, reason="first", resume="", world_size=1)
        self.event("running", attempt=1)

    def event(self, name: str, **fields: Any) -> None:
        with JournalWriter(self.layout.node("slurm").journal) as journal:
            journal.append(name, **fields)

    def beat(self, age: float = 0.0) -> None:
        value = {"v": 1, "t": time.time() - age, "attempt": 1, "job": "12", "ranks": {}}
        self.layout.node("slurm").heartbeat.write_text(json.dumps(value))


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path / "cluster's" / "run")


def test_the_folder_of_a_job_becomes_a_run_of_this_home_once(job: Job, torchdeck_home: Path) -> None:
    job.beat()
    layout = add_job(job.layout.root, torchdeck_home)
    assert add_job(job.layout.root, torchdeck_home) == layout
    assert RunRegistry(torchdeck_home).ids() == [layout.root.name]
    view = read_run(layout)
    assert (view.id, view.name, view.state, view.job) == (layout.root.name, "My run", RunState.RUNNING, "12")
    assert (view.is_foreign, view.needs_controller, view.followed_until) == (True, False, None)
    assert waits_for(view, None, 0.0) == "waiting for job 12 to save and end"


def test_another_folder_is_refused(tmp_path: Path, torchdeck_home: Path) -> None:
    with pytest.raises(JobFolderError, match="is not the run directory of an exported job"):
        add_job(tmp_path, torchdeck_home)


@pytest.mark.parametrize(
    ("age", "state", "late"),
    [(30, RunState.RUNNING, False), (300, RunState.RUNNING, True), (2000, RunState.LOST, False)],
)
def test_a_silent_job_is_shown_as_of_its_last_report_and_is_lost_at_last(
    job: Job, torchdeck_home: Path, age: float, state: RunState, *, late: bool
) -> None:
    job.beat(age)
    view = read_run(add_job(job.layout.root, torchdeck_home))
    assert (view.state, view.followed_until is not None) == (state, late)


def test_a_requeued_job_waits_and_a_later_attempt_goes_on(job: Job, torchdeck_home: Path) -> None:
    job.event("stopping", attempt=1, kind="graceful", why="user")
    job.event("attempt_ended", attempt=1, outcome="stopped")
    job.event("restarting", reason="restart")
    job.beat(50_000)
    follower = RunFollower(add_job(job.layout.root, torchdeck_home))
    assert follower.refresh().state is RunState.RESTARTING
    job.event("attempt_started", attempt=2, reason="restart", resume="/c/step_00000010", resume_step=10)
    job.beat()
    view = follower.refresh()
    assert (view.state, view.attempt, view.attempts[1].resume_step) == (RunState.STARTING, 2, 10)


def test_a_job_submitted_again_is_another_session(job: Job, torchdeck_home: Path) -> None:
    job.event("attempt_ended", attempt=1, outcome="stopped")
    job.event("finished", state="CANCELLED", why="stop requested", resumable=False, attempt=1)
    job.beat()
    layout = add_job(job.layout.root, torchdeck_home)
    assert read_run(layout).state is RunState.CANCELLED
    with JournalWriter(job.layout.journal) as journal:
        journal.append("resumed", finished=1, origin="slurm")
    job.event("attempt_started", attempt=2, reason="restart", resume="", world_size=1)
    assert read_run(layout).state is RunState.STARTING


def test_a_stop_is_a_file_that_the_ranks_see(job: Job, torchdeck_home: Path) -> None:
    job.beat()
    layout = add_job(job.layout.root, torchdeck_home)
    with pytest.raises(Refusal, match=r"scancel 12"):
        ask_job(layout, read_run(layout), now=True)
    ask_job(layout, read_run(layout), now=False)
    assert job.layout.attempt(1).stop.exists()
    with pytest.raises(Refusal, match=r"as job 12 of Slurm.*submit the script again with the same RUN_DIR"):
        refuse_start(read_run(layout))


def test_deleting_the_run_leaves_the_job_alone(job: Job, torchdeck_home: Path) -> None:
    job.event("attempt_ended", attempt=1, outcome="succeeded")
    job.event("finished", state="SUCCEEDED", why="", resumable=False, attempt=1)
    job.beat()
    layout = add_job(job.layout.root, torchdeck_home)
    assert remove(set_aside(layout)) == ()
    assert not layout.root.exists()
    assert job.layout.attempt(1).rank(0).root.is_dir()
    assert job.layout.plan.is_file()


def test_a_requeued_job_that_never_starts_again_can_be_deleted(job: Job, torchdeck_home: Path) -> None:
    layout = add_job(job.layout.root, torchdeck_home)
    job.beat()
    with pytest.raises(StillAliveError, match="RUNNING"):
        set_aside(layout)
    job.event("attempt_ended", attempt=1, outcome="stopped")
    job.event("restarting", reason="restart")
    assert read_run(layout).state is RunState.RESTARTING
    assert remove(set_aside(layout)) == ()
    assert job.layout.plan.is_file()


def test_a_job_whose_folder_is_away_is_listed_with_the_reason(job: Job, torchdeck_home: Path) -> None:
    layout = add_job(job.layout.root, torchdeck_home)
    job.layout.root.rename(job.layout.root.with_name("elsewhere"))
    (found,) = RunRegistry(torchdeck_home).all()
    assert isinstance(found, UnreadableRun)
    assert found.why.startswith(f"{job.layout.root} is not reachable from here")
    assert str(layout.root) in found.why


def test_commands_take_the_folder_for_the_run(job: Job, torchdeck_home: Path) -> None:
    job.beat()
    job.layout.attempt(1).rank(0).stdout.write_text("hello from rank 0\n")
    command = CommandHere(torchdeck_home)
    assert "hello from rank 0" in command.run("runs", "logs", job.layout.root).stdout
    shown = command.run("runs", "show", job.layout.root).stdout
    assert shown.startswith("RUNNING  My run")
    assert "1 rank, Slurm job 12\n" in shown
    refused = command.run("runs", "show", job.layout.attempts)
    assert refused.returncode == 2
    assert "is not the run directory of an exported job" in refused.stderr
