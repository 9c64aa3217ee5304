"""Driver of a sweep: starts its runs, prunes them, and records what happened, until nothing is left to do.

It may be killed at any time. Another driver finds the runs by their ids, or by their names if the first one
died before the id was written, and continues.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from torchdeck.agent.processes.detached_process import DetachedProcess
from torchdeck.contract.journal import JournalWriter
from torchdeck.contract.lock_file import try_lock
from torchdeck.contract.refusal import Refusal
from torchdeck.sweeps.decisions import (
    RunKey,
    Start,
    complete_histories,
    has_work,
    next_continued,
    next_start,
    rungs_to_note,
    runs_to_prune,
)
from torchdeck.sweeps.pruning import thinned
from torchdeck.sweeps.sweep_layout import SweepLayout
from torchdeck.sweeps.sweep_state import (
    BEGUN,
    CONTINUED,
    ENDED,
    INFEASIBLE,
    JUDGED,
    PRUNING,
    STARTED,
    STOPPING,
    SweepFollower,
    SweepState,
    plain_number,
)
from torchdeck.sweeps.trials import Outcome, TrialRun
from torchdeck.use_cases.sweeps.kept_logins import KeptLogins
from torchdeck.use_cases.sweeps.trial_runs import TrialRuns
from torchdeck.use_cases.sweeps.watched_run import WatchedRun, outcome_of
from torchdeck.use_cases.ui import Ui

POLL = 1.0
"""Seconds between two looks at the runs."""

Report = Callable[[SweepState, RunKey], object]
"""Called after each event, with the state and the run that it is about."""


class SweepBusyError(Refusal):
    """Another process drives the sweep."""


class SweepDriver:
    """Drives one sweep.

    Args:
        layout: of the sweep.
        ui: the front end.
        report: called after each event.
        poll: seconds between two looks at the runs.
    """

    def __init__(
        self, layout: SweepLayout, ui: Ui, report: Report = lambda _state, _run: None, poll: float = POLL
    ) -> None:
        self._layout, self._ui, self._report, self._poll = layout, KeptLogins(ui), report, poll
        self._follower = SweepFollower(layout)
        self._state = self._follower.refresh()
        self._runs = TrialRuns(layout, self._state.request, self._ui)
        self._watched: dict[RunKey, WatchedRun] = {}

    def drive(self) -> SweepState:
        """Return the state when all trials have ended, or all runs were stopped.

        Raises:
            SweepBusyError: another process drives it.
            Refusal: a run cannot be started for a reason that has nothing to do with its values.
            OSError: the files of the sweep cannot be written.
        """
        if not self._drive_once():
            raise SweepBusyError(f"another process drives sweep {self._layout.id}")
        # whoever extends a sweep leaves it to the process that holds the lock, even if that is about to end
        while self._has_more() and self._drive_once():
            pass
        return self._state

    def _drive_once(self) -> bool:
        """Drive until nothing is left to do; return False if another process does."""
        lock = try_lock(self._layout.lock, {"pid": os.getpid()})
        if lock is None:
            return False
        with ExitStack() as stack:
            stack.callback(os.close, lock)
            journal = stack.enter_context(JournalWriter(self._layout.journal))
            self._state = self._follower.refresh()
            while self._step(journal):
                self._ui.check()
                time.sleep(self._poll)
        return True

    def _has_more(self) -> bool:
        self._state = self._follower.refresh()
        return bool(self._state.active) or has_work(self._state)

    def _step(self, journal: JournalWriter) -> bool:
        """Look at everything once; return whether the sweep continues."""
        self._state = self._follower.refresh()
        self._recover(journal)
        for trial, run in self._state.active:
            self._look(journal, RunKey(trial.number, run.seed), run)
        self._prune(journal)
        while len(self._state.active) < self._state.request.at_once and self._start_next(journal):
            pass
        return bool(self._state.active) or has_work(self._state)

    def _recover(self, journal: JournalWriter) -> None:
        """Watch the runs that an earlier driver began."""
        for trial, run in self._state.active:
            key = RunKey(trial.number, run.seed)
            if run.id:
                if key not in self._watched:
                    self._watched[key] = self._watch(run.id)
            elif (found := self._runs.find(run)) is not None:
                self._watched[key] = self._watch(found)
                self._append(journal, STARTED, key, run=found)
            elif self._state.is_stopping:
                self._append(journal, ENDED, key, outcome=str(Outcome.STOPPED), paused=True)
            else:  # the driver died before there was a run
                self._start(journal, key)

    def _watch(self, run_id: str, controller: DetachedProcess | None = None) -> WatchedRun:
        layout = self._layout.home.run(run_id)
        return WatchedRun(layout, self._state.goal, self._ui, controller)

    def _look(self, journal: JournalWriter, key: RunKey, run: TrialRun) -> None:
        watched = self._watched.get(key)
        if watched is None:
            return
        if watched.is_gone:
            self._end(journal, key, Outcome.STOPPED, watched, "the run was deleted")
            return
        view = watched.look()
        if view.is_over:
            outcome = outcome_of(view, run)
            why = view.why
            if outcome is Outcome.COMPLETE and self._state.goal.value_of(watched.history) is None:
                outcome, why = Outcome.FAILED, watched.missing_value()
            self._end(journal, key, outcome, watched, why)
        elif run.pruned or run.is_stopping:
            watched.stop()
        elif self._state.is_stopping:
            # the sweep may be resumed before the run has stopped
            journal.append(STOPPING, trial=key.trial, seed=key.seed)
            watched.stop()

    def _end(
        self, journal: JournalWriter, key: RunKey, outcome: Outcome, watched: WatchedRun, why: str
    ) -> None:
        history = watched.history
        complete = complete_histories(self._state, key) + [history] * (outcome is Outcome.COMPLETE)
        kept = thinned(history, self._state.request.pruning, complete)
        del self._watched[key]
        self._append(
            journal,
            ENDED,
            key,
            outcome=str(outcome),
            value=plain_number(self._state.goal.value_of(history)),
            steps=history[-1][0] if history else 0,
            history=[[step, plain_number(value)] for step, value in kept],
            why=why,
            paused=self._state.is_stopping or self._state.trial(key.trial).runs[key.seed].is_stopping,
        )

    def _prune(self, journal: JournalWriter) -> None:
        live = {key: watched.history for key, watched in self._watched.items()}
        worse, reached = runs_to_prune(self._state, live), rungs_to_note(self._state, live)
        for key, rung in reached.items():
            journal.append(JUDGED, trial=key.trial, seed=key.seed, rung=rung)
        for key, why in worse.items():
            self._append(journal, PRUNING, key, why=why)
            self._watched[key].stop()

    def _start_next(self, journal: JournalWriter) -> bool:
        """Begin or continue the next run; return whether there was one."""
        continued = next_continued(self._state)
        if continued is not None:
            self._ui.check()
            self._continue(journal, continued)
            return True
        following = next_start(self._state)
        if following is None:
            return False
        self._ui.check()
        self._begin(journal, following, self._runs.name(following))
        return True

    def _begin(self, journal: JournalWriter, planned: Start, name: str) -> None:
        key = RunKey(planned.trial, planned.seed)
        self._append(journal, BEGUN, key, name=name, point=dict(planned.point))
        self._start(journal, key)

    def _continue(self, journal: JournalWriter, key: RunKey) -> None:
        """Continue a run that was stopped with the sweep: from its checkpoint, or from the beginning."""
        trial = self._state.trial(key.trial)
        run = trial.runs[key.seed]
        is_active = self._runs.is_active(run)  # a driver that died here may have resumed it
        controller = None if is_active else self._runs.resume(run)
        if controller is None and not is_active:
            planned = Start(trial.number, run.seed, trial.point)
            self._begin(journal, planned, self._runs.name(planned, run.tries + 1))
            return
        self._watched[key] = self._watch(run.id, controller)
        self._append(journal, CONTINUED, key)

    def _start(self, journal: JournalWriter, key: RunKey) -> None:
        trial = self._state.trial(key.trial)
        run = trial.runs[key.seed]
        started = self._runs.start(trial, run)
        if isinstance(started, str):
            self._append(journal, INFEASIBLE, key, why=started)
            return
        self._watched[key] = self._watch(started.layout.root.name, started.controller)
        self._append(journal, STARTED, key, run=started.layout.root.name)
        self._runs.tag(started.layout)

    def _append(self, journal: JournalWriter, event: str, key: RunKey, **fields: Any) -> None:
        journal.append(event, trial=key.trial, seed=key.seed, **fields)
        self._state = self._follower.refresh()
        self._report(self._state, key)
