"""Watchdog for processes that follow a run: restarts its controller if it was killed."""

from __future__ import annotations

import time
from collections.abc import Callable

from torchdeck.agent.processes.detached_process import DetachedProcess
from torchdeck.contract.layout import RunLayout
from torchdeck.launching.taking_over import Logins, ensure_controller
from torchdeck.runs.view import RunView

FIRST_DELAY = 2.0
"""Seconds without a controller until one is started; doubles each time, as it may exit again at once."""
LAST_DELAY = 60.0
STEADY = 60.0
"""Seconds that a controller must run to reset the delay."""

Start = Callable[[RunLayout, Logins], DetachedProcess | None]


class KeptController:
    """Watchdog of one run's controller, once one was seen: attaching is the user's decision.

    A lost run gets one in any case, until all its nodes have reported that no process of it is left.
    """

    def __init__(
        self,
        layout: RunLayout,
        logins: Logins = dict,
        clock: Callable[[], float] = time.monotonic,
        start: Start = ensure_controller,
    ) -> None:
        """Create it; nothing is started before `look`.

        Args:
            layout: the run.
            logins: the logins entered so far, for a controller that is started; must not prompt.
            clock: seconds.
            start: starts one unless there is one; raises LaunchError.
        """
        self._layout, self._logins, self._clock, self._start = layout, logins, clock, start
        self._alive_since: float | None = None
        self._due: float | None = None
        self._delay = FIRST_DELAY
        self._seen = False
        self._started: DetachedProcess | None = None

    def look(self, found: RunView) -> bool:
        """Start a controller if the previous one is gone; return whether it did.

        Raises:
            LaunchError: it cannot be started; it is retried later.
            NewerFormatError: the run is from a newer Torchdeck.
        """
        if self._started is not None:
            self._started.exit_code()  # reaps it, so that it does not appear alive
        now = self._clock()
        if found.is_over and not (found.unfenced and self._delay < LAST_DELAY):
            return False  # if it keeps exiting for a lost run, it cannot reach its nodes
        if found.controller_alive:
            self._seen, self._due = True, None
            self._alive_since = now if self._alive_since is None else self._alive_since
            if now - self._alive_since > STEADY:
                self._delay = FIRST_DELAY
            return False
        self._alive_since = None
        if not self._seen and not found.is_over:
            return False
        if self._due is None:
            self._due = now + self._delay
        if now < self._due:
            return False
        self._delay = min(LAST_DELAY, self._delay * 2)
        self._due = now + self._delay
        self._started = self._start(self._layout, self._logins)
        return self._started is not None
