"""One run of a sweep while it is active: its state, its metric, and the stop that prunes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.metrics import RunMetrics
from torchdeck.runs.follower import RunFollower
from torchdeck.runs.query.metric_values import METRIC
from torchdeck.runs.run_state import RunState
from torchdeck.runs.training_progress import roles_of_run
from torchdeck.runs.view import RunView
from torchdeck.sweeps.goal import Goal
from torchdeck.sweeps.trials import Outcome, TrialRun
from torchdeck.trainers.metric_naming import named_metric
from torchdeck.use_cases.kept_controller import KeptController
from torchdeck.use_cases.stop import PendingStop, Stopped, StopRequest, begin_stop
from torchdeck.use_cases.ui import Ui, given_logins

if TYPE_CHECKING:
    from torchdeck.agent.processes.detached_process import DetachedProcess

ORIGIN = "sweep"
"""Origin of requests to stop a run."""


class WatchedRun:
    """Follower of one run, with the history of the metric that the sweep judges by.

    Args:
        layout: of the run.
        goal: of the sweep.
        ui: the front end.
        controller: of the run, if this process started it.
    """

    def __init__(
        self, layout: RunLayout, goal: Goal, ui: Ui, controller: DetachedProcess | None = None
    ) -> None:
        self._layout, self._goal, self._ui, self._controller = layout, goal, ui, controller
        self._follower = RunFollower(layout)
        self._keeper = KeptController(layout, given_logins(layout, ui))
        self._metrics = RunMetrics(layout.root)
        self._pending: PendingStop | None = None
        self.history: tuple[tuple[int, float], ...] = ()
        """Step and value so far, one per step, ascending."""

    @property
    def is_gone(self) -> bool:
        """Whether the run was deleted."""
        return not self._layout.root.exists()

    def look(self) -> RunView:
        """Return the current view, keep the run's controller alive, and see to a pending stop.

        Raises:
            Refusal: the run is from a newer Torchdeck, or its controller cannot be started.
            OSError: its files cannot be read.
        """
        if self._controller is not None:
            self._controller.exit_code()
        view = self._follower.refresh()
        if not view.is_over:
            self._keeper.look(view)
            if self._pending is not None:
                self._pending.look(view)
        self._read_history()
        return view

    def stop(self) -> None:
        """Request the stop that saves; repeated calls do nothing. Raises Refusal."""
        if self._pending is not None:
            return
        try:
            pending = begin_stop(StopRequest(self._layout, ORIGIN, wait=False, ask=False), self._ui)
        except Refusal:
            if self._follower.refresh().is_over:  # it ended meanwhile
                return
            raise
        self._pending = None if isinstance(pending, Stopped) else pending

    def _read_history(self) -> None:
        if not self._metrics.refresh():
            return
        names = self._metrics.names()
        name = named_metric(self._goal.series.removeprefix(METRIC), names, roles_of_run(self._layout))
        if name is None:
            return
        rows = self._metrics.series(name, self._metrics.ranks(name)[0], effective=True)
        # a step that was repeated after a restart counts once, with its newest value
        points = dict(zip(rows.steps.tolist(), rows.values.tolist(), strict=True))
        self.history = tuple(sorted(points.items()))

    def missing_value(self) -> str:
        """Return a clause that the run has no value that counts, and what it logged."""
        if self.history:
            first, last = self.history[0][0], self.history[-1][0]
            return f"it has no {self._goal.metric}: it logged the metric from step {first:,} to {last:,}"
        names = ", ".join(self._metrics.names()[:10]) or "none"
        return f"it logged no {self._goal.series}; its metrics: {names}"


def outcome_of(view: RunView, run: TrialRun) -> Outcome:
    """Return how a run of a sweep ended."""
    if view.state is RunState.SUCCEEDED:
        return Outcome.COMPLETE
    if view.state is RunState.CANCELLED:
        return Outcome.PRUNED if run.pruned else Outcome.STOPPED
    return Outcome.FAILED
