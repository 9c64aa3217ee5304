"""A request to the ranks of a running run: handed over, and waited for."""

from __future__ import annotations

import time

from torchdeck.contract.doctor.rank_profile import Wanted
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import WATCHED
from torchdeck.contract.refusal import Refusal
from torchdeck.launching.requests import write_request
from torchdeck.launching.taking_over import RequestCarrier, take_up
from torchdeck.runs.folders.node_parts import remote_nodes
from torchdeck.runs.follower import RunFollower
from torchdeck.runs.foreign import why_no_start
from torchdeck.runs.view import RunView
from torchdeck.use_cases.ui import Ui, given_logins, logins_of

POLL = 0.2


class AskedRanks:
    """One request, from the moment that it is handed over."""

    def __init__(
        self,
        layout: RunLayout,
        kind: str,
        origin: str,
        ui: Ui,
        denied: str,
        wanted: Wanted | None = None,
    ) -> None:
        """Hand it over.

        Args:
            layout: the run.
            kind: kind of the request.
            origin: `terminal`, `window` or `api`.
            ui: for logins, and to cancel.
            denied: what a run without ranks of its own cannot do, as a clause.
            wanted: ranks to profile.

        Raises:
            Refusal: the run is over or only watched, or the request cannot be delivered.
        """
        self._layout, self._ui = layout, ui
        self._follower = RunFollower(layout)
        self.view = check_running(layout, self._follower.refresh(), denied)
        started = take_up(layout, logins_of(layout, ui)) if remote_nodes(layout) else None
        if started is not None:
            ui.adopt(started)
        try:
            self.request = write_request(layout, kind, origin, wanted=wanted)
        except OSError as error:
            raise Refusal(f"the request cannot be delivered: {error}") from error
        self._begun = time.monotonic()
        self._carrier = RequestCarrier(layout, given_logins(layout, ui), started)

    def wait(self, done: str, until: float) -> None:
        """Wait a moment for the answer.

        Args:
            done: what would have been done, as a clause in the past tense.
            until: monotonic time after which there is no answer.

        Raises:
            Refusal: the run has ended, or no answer came in time.
        """
        self.view = self._follower.refresh()
        if self.view.is_over:
            raise Refusal(f"run {self.view.id} is {self.view.state}: it ended before {done}")
        if time.monotonic() > until:
            passed = time.monotonic() - self._begun
            raise Refusal(
                f"run {self.view.id} did not answer for {passed:.0f} s",
                "no attempt is running, or its agent is not alive",
            )
        self._carrier.look(self.view)
        self._ui.check()
        time.sleep(POLL)


def check_running(layout: RunLayout, view: RunView, denied: str) -> RunView:
    """Return the view of a run that has ranks. Raises Refusal, which says what is `denied`."""
    if view.kind == WATCHED:
        raise Refusal(
            f"{why_no_start(view)}, so {denied}",
            fix="on its node, `py-spy dump --pid PID` shows the stacks of its process",
        )
    if view.job:
        raise Refusal(
            f"{why_no_start(view)}, so {denied}",
            fix=f"`srun --jobid={view.job} --overlap py-spy dump --pid PID` shows the stacks of a process",
        )
    if view.is_over:
        raise Refusal(
            f"run {view.id} is {view.state}: its ranks are gone",
            fix=f"stacks of hangs are in {layout.root}/attempts/N/examinations",
        )
    return view
