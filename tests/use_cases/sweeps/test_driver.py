"""The driver of a sweep where no run can be started: infeasible points, other refusals, two drivers."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import pytest

from torchdeck.config.loader import load_config
from torchdeck.config.problems import ConfigError
from torchdeck.contract.journal import JournalWriter
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.lock_file import try_lock
from torchdeck.contract.refusal import Refusal
from torchdeck.plan.check import PlanError, PreflightError, failed, problem
from torchdeck.runs.folders.run_directory import new_run_id
from torchdeck.runs.run_state import RunState
from torchdeck.sweeps.decisions import RunKey
from torchdeck.sweeps.goal import Goal
from torchdeck.sweeps.pruning import Pruner, Pruning
from torchdeck.sweeps.sweep_layout import SweepLayout
from torchdeck.sweeps.sweep_request import read_request, write_request
from torchdeck.sweeps.sweep_state import BEGUN, PRUNING, STARTED, SweepState
from torchdeck.sweeps.trials import Outcome, TrialRun
from torchdeck.use_cases.start import StartRequest
from torchdeck.use_cases.sweeps import driver, trial_runs
from torchdeck.use_cases.sweeps.begin import SweepStart, begin_sweep
from torchdeck.use_cases.sweeps.changes import extend, request_resume, request_stop
from torchdeck.use_cases.sweeps.driver import SweepBusyError, SweepDriver
from torchdeck.use_cases.sweeps.kept_logins import KeptLogins
from torchdeck.use_cases.sweeps.listing import look_at
from torchdeck.use_cases.ui import QuietUi, Ui

MEMORY = failed("memory", "localhost", "ranks need 90 GiB", "a smaller batch")
DISK = failed("disk", "localhost", "the disk is full", "make room")

SHORT = "short"
"""Id of a fake run that succeeds at once."""
Starting = Callable[[Exception], list[StartRequest]]


@pytest.fixture
def layout(torchdeck_home: Path, tmp_path: Path) -> SweepLayout:
    path = tmp_path / "toy.toml"
    path.write_text(
        '[run]\nrecipe = "digits"\n[training]\nsteps = 9\n[distributed]\nnproc = 1\n'
        '[sweep]\nmetric = "loss"\n'
    )
    return begin_sweep(SweepStart(load_config(path), ("training.microbatch=8,16",)))


@pytest.fixture
def starting(monkeypatch: pytest.MonkeyPatch) -> Starting:
    """Make every start raise an error; the list gets what was to be started."""

    def refuse(error: Exception) -> list[StartRequest]:
        asked: list[StartRequest] = []

        def start(request: StartRequest, _ui: Ui) -> NoReturn:
            asked.append(request)
            raise error

        monkeypatch.setattr(trial_runs, "start", start)
        return asked

    return refuse


@dataclass
class FakeView:
    """What the driver reads of a run."""

    state: RunState
    name: str = ""
    why: str = ""

    @property
    def is_over(self) -> bool:
        return self.state is not RunState.RUNNING


@dataclass
class FakeRun:
    """A watched run that ends when it is asked to stop."""

    asked: list[str]
    """Ids of the runs that were asked to stop."""
    id: str
    stopped: Callable[[], object]
    """Called when it is asked to stop."""
    history: tuple[tuple[int, float], ...] = ((1, 1.0),)
    is_gone = False

    def look(self) -> FakeView:
        if self.id in self.asked:
            return FakeView(RunState.CANCELLED)
        return FakeView(RunState.SUCCEEDED if self.id == SHORT else RunState.RUNNING)

    def missing_value(self) -> str:
        return "it has no loss@1000"

    def stop(self) -> None:
        self.asked.append(self.id)
        self.stopped()


Watching = Callable[[Callable[[], object]], list[str]]


@pytest.fixture
def watching(monkeypatch: pytest.MonkeyPatch) -> Watching:
    """Watch fake runs; the list gets the ids of those that are asked to stop."""

    def fake(stopped: Callable[[], object]) -> list[str]:
        asked: list[str] = []

        def watched(layout: RunLayout, *_others: object) -> FakeRun:
            return FakeRun(asked, layout.root.name, stopped)

        monkeypatch.setattr(driver, "WatchedRun", watched)
        return asked

    return fake


def begun(layout: SweepLayout, seed: int = 0, run: str = "") -> None:
    """A run of the first trial that an earlier driver began."""
    with JournalWriter(layout.journal) as journal:
        journal.append(BEGUN, trial=1, seed=seed, name=f"n{seed}", point={"training.microbatch": 8})
        if run:
            journal.append(STARTED, trial=1, seed=seed, run=run)


def driven(layout: SweepLayout) -> SweepDriver:
    return SweepDriver(layout, QuietUi(), poll=0.001)


@pytest.mark.parametrize(
    "error", [PreflightError([MEMORY]), PlanError([problem("training.microbatch", "is too large", "8")])]
)
def test_what_does_not_fit_is_counted_and_not_tried_again(
    layout: SweepLayout, starting: Starting, error: Exception
) -> None:
    asked = starting(error)
    state = driven(layout).drive()
    assert [request.loaded.config.training.microbatch for request in asked] == [8, 16]
    assert state.count(Outcome.INFEASIBLE) == 2
    assert state.trial(1).infeasible in (
        "ranks need 90 GiB: a smaller batch",
        "training.microbatch: is too large: 8",
    )
    assert look_at(layout).status == "ended"
    assert driven(layout).drive() == state
    assert len(asked) == 2


def test_a_start_has_the_values_and_the_name_of_its_trial(layout: SweepLayout, starting: Starting) -> None:
    (first, _) = starting(PreflightError([MEMORY])), driven(layout).drive()
    request = first[0]
    assert request.loaded.config.name == f"toy {layout.suffix} #1 microbatch=8"
    assert request.loaded.config.launch.queue
    assert request.overrides[0] == "training.microbatch=8"
    assert request.source.endswith("toy.toml")


@pytest.mark.parametrize("checks", [[DISK], [DISK, MEMORY]])
def test_any_other_refusal_ends_the_driver_and_the_trial_is_tried_again(
    layout: SweepLayout, starting: Starting, checks: list[object]
) -> None:
    starting(PreflightError(checks))  # type: ignore[arg-type]  # parametrized
    with pytest.raises(PreflightError):
        driven(layout).drive()
    assert look_at(layout).status == "interrupted"
    asked = starting(PreflightError([MEMORY]))
    assert driven(layout).drive().count(Outcome.INFEASIBLE) == 2
    assert [request.loaded.config.training.microbatch for request in asked] == [8, 16]


def test_a_stop_starts_nothing_that_its_driver_had_only_begun(
    layout: SweepLayout, starting: Starting
) -> None:
    """It begins again when the sweep is resumed."""
    starting(PreflightError([DISK]))
    with pytest.raises(PreflightError):
        driven(layout).drive()
    asked = starting(PreflightError([MEMORY]))
    request_stop(layout)
    assert driven(layout).drive().count(Outcome.STOPPED) == 1
    assert not asked
    assert look_at(layout).status == "stopped"
    request_resume(layout)
    assert look_at(layout).status == "interrupted"
    assert driven(layout).drive().count(Outcome.INFEASIBLE) == 2
    assert asked[0].loaded.config.name == f"toy {layout.suffix} #1 try 2 microbatch=8"


def test_an_error_in_an_extended_file_makes_no_trial_infeasible(
    torchdeck_home: Path, tmp_path: Path, starting: Starting
) -> None:
    base, path = tmp_path / "base.toml", tmp_path / "toy.toml"
    base.write_text('[run]\nrecipe = "digits"\n[training]\nsteps = 9\n')
    path.write_text('extends = "base.toml"\n[sweep]\nmetric = "loss"\n')
    layout = begin_sweep(SweepStart(load_config(path), ("training.microbatch=8,16",)))
    asked, first = starting(PreflightError([MEMORY])), driven(layout)
    right = base.read_text()
    base.write_text(right + "stepps = 9\n")
    with pytest.raises(ConfigError, match="stepps"):
        first.drive()
    assert not asked
    base.write_text(right)
    assert driven(layout).drive().count(Outcome.INFEASIBLE) == 2
    assert len(asked) == 2


def test_a_node_that_does_not_answer_makes_no_trial_infeasible(
    layout: SweepLayout, starting: Starting
) -> None:
    error = PlanError([problem("", "node n1 does not answer", "switch it on")])
    error.__cause__ = PlanError([])
    starting(error)
    with pytest.raises(PlanError, match="does not answer"):
        driven(layout).drive()


def test_a_sweep_resumed_while_its_runs_are_stopping_continues_them(
    layout: SweepLayout, starting: Starting, watching: Watching
) -> None:
    begun(layout, run="r1")
    request_stop(layout)
    stopped = watching(lambda: request_resume(layout))
    asked = starting(PreflightError([MEMORY]))
    assert driven(layout).drive().count(Outcome.INFEASIBLE) == 2
    assert stopped == ["r1"]
    assert asked[0].loaded.config.name == f"toy {layout.suffix} #1 try 2 microbatch=8"


def test_a_run_found_again_is_stopped_if_another_seed_of_its_trial_was_pruned(
    layout: SweepLayout, starting: Starting, watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = read_request(layout.request)
    write_request(layout.request, replace(request, seeds=2, pruning=Pruning(Pruner.ASHA)))
    begun(layout, 0, run="r0")
    begun(layout, 1)
    with JournalWriter(layout.journal) as journal:
        journal.append(PRUNING, trial=1, seed=0, why="worse")
    monkeypatch.setattr(trial_runs.TrialRuns, "find", lambda _self, _run: "r1")
    starting(PreflightError([MEMORY]))
    stopped = watching(lambda: None)
    assert driven(layout).drive().count(Outcome.PRUNED) == 1
    assert set(stopped) == {"r0", "r1"}


def test_an_extension_after_the_last_look_of_a_driver_is_taken_up(
    layout: SweepLayout, starting: Starting
) -> None:
    asked = starting(PreflightError([MEMORY]))

    def report(state: SweepState, _run: RunKey) -> None:
        if state.count(Outcome.INFEASIBLE) == 2 and state.most == 2:
            extend(layout, 1, ["training.microbatch=8,16,32"])

    state = SweepDriver(layout, QuietUi(), report, poll=0.001).drive()
    assert state.count(Outcome.INFEASIBLE) == 3
    assert len(asked) == 3


def test_a_run_that_ended_before_the_step_that_counts_has_failed(
    layout: SweepLayout, starting: Starting, watching: Watching
) -> None:
    request = read_request(layout.request)
    write_request(layout.request, replace(request, goal=Goal("loss@1000")))
    begun(layout, run=SHORT)
    watching(lambda: None)
    starting(PreflightError([MEMORY]))
    state = driven(layout).drive()
    assert state.trial(1).outcome is Outcome.FAILED
    assert state.trial(1).runs[0].why == "it has no loss@1000"


def test_a_run_is_found_again_after_the_clock_was_set(
    layout: SweepLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = trial_runs.TrialRuns(layout, read_request(layout.request), QuietUi())
    begun_at = 1_790_000_000.0
    run_id = new_run_id("toy #1", begun_at - 1800)
    layout.home.run(run_id).root.mkdir(parents=True)
    monkeypatch.setattr(trial_runs, "open_run_directory", RunLayout)
    monkeypatch.setattr(trial_runs, "read_run", lambda _layout: FakeView(RunState.RUNNING, "toy #1"))
    assert runs.find(TrialRun(0, "toy #1", begun_at)) == run_id


def test_a_sweep_has_one_driver(layout: SweepLayout) -> None:
    lock = try_lock(layout.lock)
    assert lock is not None
    with pytest.raises(SweepBusyError):
        driven(layout).drive()
    os.close(lock)


def test_a_sweep_that_cannot_be_written_leaves_nothing(torchdeck_home: Path, tmp_path: Path) -> None:
    path = tmp_path / "toy.toml"
    path.write_text('[run]\nscript = "a.py"\nargs = ["{x}"]\n[sweep]\nmetric = "loss"\nover = ["x=1,2"]\n')
    torchdeck_home.mkdir(mode=0o700, exist_ok=True)
    (torchdeck_home / "sweeps").write_text("in its place")
    with pytest.raises(Refusal, match="the sweep cannot be written"):
        begin_sweep(SweepStart(load_config(path)))


def test_logins_of_one_run_serve_the_next(tmp_path: Path) -> None:
    ui = KeptLogins(QuietUi())
    assert ui.connector(tmp_path) is ui.connector(tmp_path)
    assert ui.connector(tmp_path) is not ui.connector(tmp_path / "other")
