"""Handle of a started run for Python code."""

from __future__ import annotations

import time
from pathlib import Path

from torchdeck.agent.processes.detached_process import DetachedProcess
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.follower import RunFollower
from torchdeck.runs.view import RunView
from torchdeck.use_cases.stop_request import StopRequest, request_stop
from torchdeck.use_cases.ui import QuietUi

POLL = 0.1


class Run:
    """A run that was started. Deleting this object, or ending this process, does not affect it."""

    def __init__(self, layout: RunLayout, controller: DetachedProcess | None = None) -> None:
        self.layout = layout
        self._controller = controller
        self._follower = RunFollower(layout)

    @property
    def id(self) -> str:
        return self.layout.root.name

    @property
    def directory(self) -> Path:
        """Folder with everything about the run."""
        return self.layout.root

    def view(self) -> RunView:
        """The current state. Raises NewerFormatError if a newer Torchdeck took the run over."""
        if self._controller is not None:
            self._controller.exit_code()
        return self._follower.refresh()

    def wait(self, timeout: float | None = None) -> RunView:
        """Wait until the run is over, and return its final state.

        Args:
            timeout: maximum wait in seconds. Default: no limit.

        Raises:
            TimeoutError: the run still continues after `timeout` seconds; it is not affected.
        """
        limit = None if timeout is None else time.monotonic() + timeout
        while not (found := self.view()).is_over:
            if limit is not None and time.monotonic() > limit:
                raise TimeoutError(f"run {self.id} is {found.state} after {timeout:g} s")
            time.sleep(POLL)
        return found

    def stop(self, *, now: bool = False) -> None:
        """Request a stop: finish the step, save and exit. With `now`, end the processes at once.

        Raises:
            Refusal: the request cannot be written, or no controller can be started.
        """
        request_stop(StopRequest(self.layout, "api", now=now, ask=False), QuietUi()).look(self.view())

    def __repr__(self) -> str:
        return f"<Run {self.id} in {self.directory}>"
