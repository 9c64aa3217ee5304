"""A controller that loads itself while the front end still looks at the nodes of the run to be.

It belongs to no run and has written nothing until its front end hands it one; with that it ends quietly.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.config.schema import RunConfig
from torchdeck.launch.controller_environment import controller_environment
from torchdeck.launch.detached import PIPE_LIMIT, DetachedProcess, start_waiting
from torchdeck.launch.node_survey import is_here_alone

if TYPE_CHECKING:
    from torchdeck.launch.run_secrets import RunSecrets
    from torchdeck.rundir.layout import RunLayout

GO = b"\n"
"""After the order: the run's directory is there. Where this does not come, the controller looks itself."""


class EarlyController:
    """One that waits. Of no use once it was begun or dismissed, or has ended: then all is as without it.

    Args:
        home: TORCHDECK_HOME.
        hidden: names of variables with secrets, which are not in its environment.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, home: Path, hidden: frozenset[str]) -> None:
        self._home = home
        self._hidden = hidden
        self._has_order = False
        argv = [sys.executable, "-P", "-m", "torchdeck.launch.waiting_controller"]
        self._process, self._pipe = start_waiting(argv, controller_environment(home, hidden))
        self._waits = True

    def entrust(self, layout: RunLayout, secrets: RunSecrets, logins: Mapping[str, Any] | None) -> None:
        """Hand it a run whose directory is about to be there; it touches nothing before that is.

        Whoever dies after this leaves a run that goes on, or none.
        """
        order = {"run": str(layout.root), "secrets": dict(secrets.values), "logins": logins or {}}
        line = json.dumps(order).encode() + b"\n"
        fits = secrets.names <= self._hidden and layout.root.parent.parent == self._home
        if not self._waits or not fits or len(line) + len(GO) > PIPE_LIMIT:
            return
        with contextlib.suppress(BrokenPipeError):
            os.write(self._pipe, line)
            self._has_order = True

    def begin(self) -> DetachedProcess | None:
        """The run's directory is there: go. None where it has no order, or has ended."""
        if not self._has_order or not self._waits:
            return None
        self._waits = False
        with contextlib.suppress(BrokenPipeError):
            os.write(self._pipe, GO)
        os.close(self._pipe)
        return self._process if self._process.exit_code() is None else None

    def dismiss(self) -> None:
        """There is nothing to control."""
        if not self._waits:
            return
        self._waits = False
        if self._process.exit_code() is None:
            with contextlib.suppress(OSError):
                os.kill(self._process.pid, signal.SIGKILL)  # before it could know that the pipe is closed
                self._process.wait()
        os.close(self._pipe)


@contextlib.contextmanager
def early_controller(config: RunConfig, home: Path) -> Iterator[EarlyController | None]:
    """A controller for a run of `config`, where other machines are asked first, which takes longer.

    It is gone after the block, unless it was begun. None on this machine alone, or where none can be started.
    """
    early = None
    if not is_here_alone(config):
        with contextlib.suppress(OSError):
            early = EarlyController(home, frozenset(config.run.secrets))
    try:
        yield early
    finally:
        if early is not None:
            early.dismiss()
