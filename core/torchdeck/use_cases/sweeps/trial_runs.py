"""Runs of a sweep: their names, starting them, and finding one whose id was not written down."""

from __future__ import annotations

import os
import time
from dataclasses import replace

from torchdeck.agent.processes.detached_process import DetachedProcess
from torchdeck.config.problems import ConfigError
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.plan.check import PlanError, PreflightError
from torchdeck.runs.folders.run_directory import RunDirectoryError, open_run_directory, slug
from torchdeck.runs.follower import read_run
from torchdeck.runs.registry import RunRegistry
from torchdeck.sweeps.decisions import Start
from torchdeck.sweeps.sweep_layout import SweepLayout
from torchdeck.sweeps.sweep_request import SweepRequest
from torchdeck.sweeps.swept_file import run_name, trial_overrides
from torchdeck.sweeps.trials import Trial, TrialRun
from torchdeck.trainers.resume import UnknownResumeError
from torchdeck.use_cases.resume import resume
from torchdeck.use_cases.start import Started, StartRequest, start
from torchdeck.use_cases.sweeps.watched_run import ORIGIN
from torchdeck.use_cases.table.notes import change_notes
from torchdeck.use_cases.ui import Ui

REVEAL_LIMIT = 10.0
"""Seconds for a run that was being made when the driver died to appear."""
TAG = "sweep:"
"""Beginning of the tag that all runs of a sweep have; the sweep's id follows."""


class TrialRuns:
    """Makes and finds the runs of one sweep.

    Args:
        layout: of the sweep.
        request: of the sweep.
        ui: the front end.
    """

    def __init__(self, layout: SweepLayout, request: SweepRequest, ui: Ui) -> None:
        self._layout, self._request, self._ui = layout, request, ui
        self._config = request.file.loaded().config
        self._registry = RunRegistry(layout.home.root)

    def name(self, planned: Start, tries: int = 1) -> str:
        """Return the name of a run, which no other run of this home has."""
        seed = planned.seed if self._request.seeds > 1 else None
        base, suffix = self._config.name, self._layout.suffix
        return run_name(base, suffix, planned.trial, seed, planned.point, tries)

    def start(self, trial: Trial, run: TrialRun) -> Started | str:
        """Start a run of a trial.

        Returns:
            The run; or why the trial is infeasible: it cannot be planned, or does not fit into memory.

        Raises:
            Refusal: it cannot be started for another reason; also if the run file is wrong without the
                values of the trial.
        """
        file = self._request.file
        overrides = trial_overrides(self._config, trial.point, run.seed, run.name)
        try:
            loaded = file.loaded(overrides)
            request = StartRequest(
                loaded,
                loaded.text,
                str(loaded.path) if file.is_file else "",
                (*file.overrides, *overrides),
                home=self._layout.home.root,
            )
            return start(request, self._ui)
        except PreflightError as error:
            if not _is_memory_alone(error):
                raise
            return str(error)
        except ConfigError as error:
            if _is_of_nodes(error):
                raise
            file.loaded()  # raises if the run file itself is wrong by now, or one that it extends
            return "; ".join(str(part) for part in error.parts())

    def is_active(self, run: TrialRun) -> bool:
        """Return whether a run exists and is not over."""
        layout = self._layout.home.run(run.id)
        return bool(run.id) and layout.root.exists() and not read_run(layout).is_over

    def resume(self, run: TrialRun) -> DetachedProcess | None:
        """Continue a run that was stopped; its controller.

        Returns:
            None if it has to begin again: it was never started, was deleted, has no checkpoint, or it is
            unknown how its script continues.

        Raises:
            Refusal: it cannot be resumed for another reason.
        """
        layout = self._layout.home.run(run.id)
        if not run.id or not layout.root.exists() or not read_run(layout).resumable:
            return None
        try:
            return resume(layout, ORIGIN, self._ui)
        except UnknownResumeError:
            return None

    def find(self, run: TrialRun) -> str | None:
        """Return the id of the run that was begun under a name; None if there is none.

        The run may be about to appear: then this waits for it.
        """
        limit = time.monotonic() + REVEAL_LIMIT
        while True:
            found = self._named(run)
            if found is not None or not self._is_being_made(run) or time.monotonic() > limit:
                return found
            self._ui.check()
            time.sleep(0.1)

    def _named(self, run: TrialRun) -> str | None:
        mark = f"-{slug(run.name)}-"
        for run_id in self._registry.ids_since(run.begun):  # oldest first: a clone has the same name
            if mark not in run_id:
                continue
            try:
                view = read_run(open_run_directory(self._registry.folder / run_id))
            except (RunDirectoryError, OSError):
                continue
            if view.name == run.name:
                return run_id
        return None

    def _is_being_made(self, run: TrialRun) -> bool:
        """Whether there is a hidden directory for it, whose controller may be alive."""
        mark = f"-{slug(run.name)}-"
        try:
            return any(
                name.startswith(".") and mark in name
                for name in os.listdir(self._registry.folder)  # noqa: PTH208 - only names are needed
            )
        except FileNotFoundError:
            return False

    def tag(self, layout: RunLayout) -> None:
        """Tag a run with its sweep; a note that cannot be written is reported."""
        tag = f"{TAG}{self._layout.id}"
        try:
            change_notes(
                self._layout.home.root,
                (layout.root.name,),
                lambda note: replace(note, tags=tuple(dict.fromkeys((*note.tags, tag)))),
                self._ui.note,
            )
        except (Refusal, OSError) as error:
            self._ui.note(f"run {layout.root.name} has no tag: {error}")


def _is_memory_alone(error: PreflightError) -> bool:
    """Return whether nothing but memory is in short supply, which other values may need less of."""
    failed = [check for check in error.checks if check.status == "failed"]
    return bool(failed) and all(check.name == "memory" for check in failed)


def _is_of_nodes(error: ConfigError) -> bool:
    """Return whether there is no plan because of a node's fault: then it is raised from the plan's error."""
    return isinstance(error, PlanError) and isinstance(error.__cause__, PlanError)
