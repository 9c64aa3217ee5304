"""A controller that loads itself while the front end still looks at the nodes of the run to be.

It belongs to no run until its front end hands it one, and ends quietly with that. Meanwhile it begins links
to the nodes that are named to it; nothing is laid down there before it has a run.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import sys
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.agent.processes.detached_process import PIPE_LIMIT, DetachedProcess
from torchdeck.agent.processes.forked_process import forked, has_one_thread
from torchdeck.contract.processes import RUN_VARIABLES
from torchdeck.launching.control.controller_environment import controller_environment
from torchdeck.launching.control.detached import start_waiting

if TYPE_CHECKING:
    from torchdeck.config.schema import RunConfig
    from torchdeck.contract.layout import RunLayout
    from torchdeck.launching.control.run_secrets import RunSecrets

GO = b"\n"
"""After the order: the run's directory is there. Where this does not come, the controller looks itself."""
NAMES_LIMIT = 5_000
"""Bytes of names of nodes, beside which an order of `PIPE_LIMIT` has room in a pipe of 64 KiB."""
PROCESS_NAME = "torchdeck-ctl"
PROGRAM = "torchdeck.launching.control.waiting_controller"
GONE_LIMIT = 2.0
"""Seconds for one that was dismissed to be gone: it may hang in a disk that does not answer."""


class EarlyController:
    """One that waits. Of no use once it was begun or dismissed, or has ended: then all is as without it.

    Args:
        home: TORCHDECK_HOME.
        hidden: names of variables with secrets, which are not in its environment.
        copied: it may be a copy of this process, where that is safe, which has loaded half of it.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, home: Path, hidden: frozenset[str], *, copied: bool = False) -> None:
        self._home = home
        self._hidden = hidden
        self._has_order = False
        env = controller_environment(home, hidden)
        # what /proc says of a copy's environment is what it says of ours
        if copied and has_one_thread() and (hidden | RUN_VARIABLES).isdisjoint(os.environ):
            self._process, self._pipe = _copy(env)
        else:
            argv = [sys.executable, "-P", "-m", PROGRAM]  # -P: see `launcher.start_controller`
            self._process, self._pipe = start_waiting(argv, env)
        self._waits = True
        self._named = 0
        self._writing = threading.Lock()

    def name(self, node: str) -> None:
        """A node of the run to be has let us in: a link to it can be begun. Any thread may say so."""
        line = json.dumps({"node": node}).encode() + b"\n"
        with self._writing:
            self._named += len(line)
            if self._waits and not self._has_order and self._named <= NAMES_LIMIT:
                self._write(line)

    def entrust(self, layout: RunLayout, secrets: RunSecrets, logins: Mapping[str, Any] | None) -> None:
        """Hand it a run whose directory is about to be there; it touches nothing before that is.

        Whoever dies after this leaves a run that goes on, or none.
        """
        order = {"run": str(layout.root), "secrets": dict(secrets.values), "logins": logins or {}}
        line = json.dumps(order).encode() + b"\n"
        fits = secrets.names <= self._hidden and layout.home.root == self._home
        with self._writing:
            if self._waits and fits and len(line) + len(GO) <= PIPE_LIMIT:
                self._has_order = self._write(line)

    def begin(self) -> DetachedProcess | None:
        """The run's directory is there: go. None where it has no order, or has ended."""
        with self._writing:
            if not self._has_order or not self._waits:
                return None
            self._waits = False
            self._write(GO)
            os.close(self._pipe)
        return self._process if self._process.exit_code() is None else None

    def dismiss(self) -> None:
        """There is nothing to control."""
        with self._writing:
            if not self._waits:
                return
            self._waits = False
            self._process.end(GONE_LIMIT)  # before it could know that the pipe is closed
            os.close(self._pipe)

    def _write(self, line: bytes) -> bool:
        """Into the pipe, which has room for it; whether it went."""
        try:
            return os.write(self._pipe, line) == len(line)
        except BrokenPipeError:
            return False


def _copy(env: Mapping[str, str]) -> tuple[DetachedProcess, int]:
    """One that is a copy of this process, and the end of the pipe that it reads. Raises OSError."""
    reading, writing = os.pipe()
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        return forked(partial(_wait, env), PROCESS_NAME, reading, nothing), writing
    except OSError:
        os.close(writing)
        raise
    finally:
        os.close(reading)
        os.close(nothing)


def _wait(env: Mapping[str, str]) -> int:
    """Be an early controller. Modules come from where this process has its own: without -P, that is."""
    os.environ.clear()
    os.environ.update(env)
    runpy.run_module(PROGRAM, run_name="__main__")
    return 0


@contextlib.contextmanager
def early_controller(
    config: RunConfig, home: Path, *, copied: bool = False
) -> Iterator[EarlyController | None]:
    """A controller for a run of `config`, where other machines are asked first, which takes longer.

    It is gone after the block, unless it was begun. None on this machine alone, or where none can be started.

    Args:
        config: of the run to be.
        home: TORCHDECK_HOME.
        copied: this process has done nothing yet but read `config`, so that a copy of it will do.
    """
    from torchdeck.config.chosen_nodes import is_here_alone

    early = None
    if not is_here_alone(config):
        if copied:
            from torchdeck.nodes.ssh import loaded  # noqa: F401 - both need it
        with contextlib.suppress(OSError):
            early = EarlyController(home, frozenset(config.run.secrets), copied=copied)
    try:
        yield early
    finally:
        if early is not None:
            early.dismiss()
