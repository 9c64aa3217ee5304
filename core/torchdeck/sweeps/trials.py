"""Trials of a sweep, and the runs of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from torchdeck.sweeps.pruning import History
from torchdeck.sweeps.results import Judged, judged
from torchdeck.sweeps.strategies import Point


class Outcome(StrEnum):
    """State of a trial, and how one of its runs ended."""

    RUNNING = "running"
    COMPLETE = "complete"
    PRUNED = "pruned"
    FAILED = "failed"
    STOPPED = "stopped"
    """Stopped by the user or by a limit of the run file."""
    INFEASIBLE = "infeasible"
    """It cannot be planned or does not fit into memory; never started."""


@dataclass(frozen=True)
class TrialRun:
    """One run of a trial."""

    seed: int
    """Number of its seed, from 0."""
    name: str
    """Name of the run, by which it is found if its id was not written down."""
    begun: float
    """Unix seconds of the decision to start it."""
    id: str = ""
    """Id of the run; empty: it was being started."""
    outcome: Outcome = Outcome.RUNNING
    value: float | None = None
    """Value that counts; None: not over, or the run has no such metric."""
    steps: int = 0
    """Last step at which it logged the metric."""
    history: History = ()
    """Thinned history of the metric, once it is over."""
    pruned: str = ""
    """Why it was asked to stop; empty: it was not."""
    rung: int = 0
    """Last step at which `asha` compared it with the others; 0: none."""
    why: str = ""
    """Why it failed or has no value."""
    is_stopping: bool = False
    """Whether it was asked to stop because the sweep was."""
    is_paused: bool = False
    """Whether it was stopped because the sweep was: it continues with the sweep."""
    tries: int = 1
    """How often it was begun from the beginning."""

    @property
    def is_over(self) -> bool:
        return self.outcome is not Outcome.RUNNING


@dataclass(frozen=True)
class Trial:
    """One point of the space, with the runs begun so far."""

    number: int
    point: Point
    runs: Mapping[int, TrialRun] = field(default_factory=dict)
    """By the number of the seed."""
    infeasible: str = ""
    """Why it cannot be started; empty: it can."""
    seeds: int = 1
    """Runs that it needs to be complete."""

    @property
    def outcome(self) -> Outcome:
        """State of the whole: the worst end of its runs decides."""
        if self.infeasible:
            return Outcome.INFEASIBLE
        ends = {run.outcome for run in self.runs.values()}
        if Outcome.RUNNING in ends:
            return Outcome.RUNNING
        for end in (Outcome.FAILED, Outcome.STOPPED, Outcome.PRUNED):
            if end in ends:
                return end
        return Outcome.COMPLETE if len(self.runs) >= self.seeds else Outcome.RUNNING

    @property
    def judged(self) -> Judged | None:
        """Mean and deviation over the seeds; None until it is complete."""
        values = [run.value for run in self.runs.values() if run.value is not None]
        if self.outcome is not Outcome.COMPLETE or len(values) < len(self.runs):
            return None
        return judged(values)

    @property
    def last_value(self) -> float | None:
        """The mean of what is known so far, also of a trial that was pruned."""
        values = [run.value for run in self.runs.values() if run.value is not None]
        return judged(values).mean if values else None

    @property
    def begun(self) -> float:
        """Unix seconds of the decision to start its last run; 0: unknown."""
        return max((run.begun for run in self.runs.values()), default=0.0)

    @property
    def steps(self) -> int:
        """Steps of all its runs that are over."""
        return sum(run.steps for run in self.runs.values())

    @property
    def wants_more(self) -> bool:
        """Whether further seeds should be started: none of its runs has ended badly."""
        good = all(run.outcome in (Outcome.RUNNING, Outcome.COMPLETE) for run in self.runs.values())
        pruned = any(run.pruned for run in self.runs.values())
        return good and not pruned and not self.infeasible and len(self.runs) < self.seeds
