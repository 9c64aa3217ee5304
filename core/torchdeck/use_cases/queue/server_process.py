"""The queue's server as a process of its own: starts it detached, and stops exactly it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from torchdeck.agent.processes.detached_process import DetachedProcess, start_detached
from torchdeck.contract.atomic import read_json
from torchdeck.contract.layout import HOME_VARIABLE, Home
from torchdeck.contract.lock_file import is_held
from torchdeck.contract.processes import ProcessIdentity, boot_id, without_run_variables
from torchdeck.contract.waiting import wait_for
from torchdeck.queue.state import QueueError

COMMAND = ("-P", "-m", "torchdeck.use_cases.queue.serving")
"""Arguments of the interpreter; -P: a folder named torchdeck must not shadow the package."""
START_LIMIT = 30.0
STOP_LIMIT = 60.0
"""Seconds; a start that is under way is finished first."""
TICK = 0.05
LAST_BYTES = 2000


def start_server(home: Path) -> DetachedProcess:
    """Start the server of a home, and wait until it serves; it outlives this process.

    Returns:
        The process, to be reaped.

    Raises:
        QueueError: it cannot be started, or ended at once.
    """
    files = Home(home)
    env = {**without_run_variables(os.environ), HOME_VARIABLE: str(home)}
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        process = start_detached([sys.executable, *COMMAND], env, files.queue_log)
    except OSError as error:
        raise QueueError("the server cannot be started", error.strerror or error) from error
    wait_for(lambda: is_held(files.queue_lock) or process.exit_code() is not None, START_LIMIT, TICK)
    if is_held(files.queue_lock):
        return process
    process.end(1.0)
    raise QueueError("the server ended at once", _last_line(files.queue_log), f"see {files.queue_log}")


def stop_server(home: Path) -> None:
    """Stop the server of a home by SIGTERM, and wait until it has ended. Its runs continue.

    Raises:
        QueueError: it runs on another machine, is not known, or has not ended in time.
    """
    lock = Home(home).queue_lock
    try:
        server = ProcessIdentity.from_json(read_json(lock))
    except OSError:
        server = None
    if not is_held(lock):
        return
    if server is None or server.boot != boot_id():
        raise QueueError("the server does not run on this machine", fix="stop it where it was started")
    server.send(signal.SIGTERM)
    if not wait_for(lambda: not is_held(lock), STOP_LIMIT, TICK):
        raise QueueError(f"the server has not ended after {STOP_LIMIT:g} s", fix="wait; it may start a run")


def _last_line(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - LAST_BYTES))
            lines = file.read(LAST_BYTES).decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return next((line for line in reversed(lines) if line.strip()), "")
