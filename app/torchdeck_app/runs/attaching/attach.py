"""Following a run again that goes on on other machines; blocks, so not for the GUI thread."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from torchdeck.agent.processes.detached_process import DetachedProcess
from torchdeck.contract.layout import RunLayout
from torchdeck.launching.launcher import LaunchError
from torchdeck.launching.taking_over import Logins, take_up
from torchdeck.runs.follower import RunFollower

LIMIT = 15.0
"""Seconds for a controller to show itself; a busy machine takes some to start it."""
_POLL = 0.1


def attach(
    layout: RunLayout,
    logins: Logins,
    progress: Callable[[str], None],
    check: Callable[[], None],
    reap: Callable[[DetachedProcess], None],
) -> None:
    """Start a controller that has the logins, if one is wanted, and wait until it has the run.

    Args:
        layout: the run.
        logins: asks for what its nodes want.
        progress: told what is waited for.
        check: asked again and again; what it raises ends the waiting.
        reap: gets the controller once nobody here looks at it any more, whatever was raised meanwhile; it
            goes on following the run.

    Raises:
        LaunchError: it cannot be started, or ended at once; the message has its last words.
        NewerFormatError: the run is from a newer Torchdeck.
    """
    controller = take_up(layout, logins)
    if controller is None:
        return
    try:
        progress("waiting for its controller")
        _wait_followed(layout, controller, check)
    finally:
        reap(controller)


def _wait_followed(layout: RunLayout, controller: DetachedProcess, check: Callable[[], None]) -> None:
    """Until the controller has the run, or `LIMIT` has passed. Raises LaunchError."""
    follower = RunFollower(layout)
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        check()
        code = controller.exit_code()
        if code not in (None, 0):
            raise LaunchError(f"the run is not followed: {_last_words(layout)}")
        found = follower.refresh()
        if code == 0 or found.is_over or follower.controller_pid == controller.pid:
            return
        time.sleep(_POLL)


def _last_words(layout: RunLayout) -> str:
    lines: list[str] = []
    with contextlib.suppress(OSError):
        lines = layout.controller_log.read_text("utf-8", "replace").split("\n")
    said = [line.removeprefix("torchdeck: ") for line in lines if line.strip()]
    return said[-1] if said else "its controller ended and wrote nothing"
