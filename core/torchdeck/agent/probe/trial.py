"""A trial on this node: scripts in a folder of their own, a child, and the end of all that comes of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchdeck.agent.processes.child_process import ChildProcess
from torchdeck.agent.processes.ending import OrphanCleanup
from torchdeck.contract.processes import RUN_ID_VARIABLE, without_run_variables

GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL; nothing in a trial is worth more."""
GIVE_UP = 5.0
SAID_LIMIT = 256 * 1024
"""Bytes of output that one look reads."""
ERRORS = 3000
"""Bytes of the end of standard error that are reported."""


class Trial:
    """At most one child at a time. It and all that it started end with `end`, and by themselves in time.

    The child's processes carry the trial's run id, and are found by it wherever they are.
    """

    def __init__(self) -> None:
        self._child: ChildProcess | None = None
        self._folder = Path()
        self._run_id = ""
        self._seen = 0
        """Bytes of its output that were returned."""
        self._ended = threading.Event()

    def start(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Start this Python with `arguments`, `@` in them the folder with `files` (name → text).

        Args:
            question: also `python` (default: this one), `run_id`, `env` (set over this environment), and
                `seconds` until all of it is ended, whoever is still there to ask for that.
        """
        self.end({})
        self._run_id = str(question["run_id"])
        self._folder = Path(tempfile.mkdtemp(prefix="torchdeck-trial-"))
        for name, text in question["files"].items():
            (self._folder / Path(str(name)).name).write_text(str(text), encoding="utf-8")
        arguments = [str(word).replace("@", str(self._folder), 1) for word in question["arguments"]]
        environ = {
            **without_run_variables(os.environ),
            **question.get("env", {}),
            RUN_ID_VARIABLE: self._run_id,
        }
        self._seen, self._ended = 0, threading.Event()
        argv = [str(question.get("python", sys.executable)), *arguments]
        with (self._folder / "stdout").open("wb") as output, (self._folder / "stderr").open("wb") as errors:
            self._child = ChildProcess(argv, stdout=output, stderr=errors, env=environ, cwd=str(self._folder))
        until = time.monotonic() + float(question["seconds"])
        threading.Thread(target=self._guard, args=(until, self._ended), daemon=True).start()
        return {}

    def look(self, _question: Mapping[str, Any]) -> dict[str, Any]:
        """`lines` since the last look, and the child's exit `code` (None while it runs) and last `errors`."""
        code = None if self._child is None else self._child.exit_code()
        whole, newline, _ = self._output().rpartition(b"\n")
        self._seen += len(whole + newline)
        lines = (whole + newline).decode("utf-8", "replace").splitlines()
        return {"lines": lines, "code": code, "errors": "" if code is None else self._errors()}

    def end(self, _question: Mapping[str, Any]) -> dict[str, Any]:
        """End all of it, and remove the folder; `left`: processes that do not end."""
        self._ended.set()
        child, self._child = self._child, None
        if child is None:
            return {"left": 0}
        left = OrphanCleanup(self._run_id, None, GRACE, GIVE_UP, time.monotonic()).finish()
        if left == 0:  # else the kernel holds it, and it would be waited for
            child.end()
        shutil.rmtree(self._folder, ignore_errors=True)
        return {"left": left}

    def _errors(self) -> str:
        with contextlib.suppress(OSError):
            return (self._folder / "stderr").read_bytes()[-ERRORS:].decode("utf-8", "replace")
        return ""

    def _output(self) -> bytes:
        """Return what it has printed since the last look."""
        with contextlib.suppress(OSError), (self._folder / "stdout").open("rb") as output:
            output.seek(self._seen)
            return output.read(SAID_LIMIT)
        return b""

    def _guard(self, until: float, ended: threading.Event) -> None:
        """End it when its time is over: who asked may be cut off."""
        if not ended.wait(max(0.0, until - time.monotonic())):
            self.end({})


def free_port(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return a free port of `address`."""
    address = str(question["address"])
    family = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0][0]
    with socket.socket(family, socket.SOCK_STREAM) as found:
        found.bind((address, 0))
        return {"port": found.getsockname()[1]}
