"""A child that is not waited for."""

from __future__ import annotations

import contextlib
import os
import signal
import time

UNKNOWN_CODE = 255
"""Of a child that somebody else has reaped, or nobody needed to, where SIGCHLD is ignored."""
TICK = 0.002


class DetachedProcess:
    """A child in a session of its own; reaped when it is asked after."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def exit_code(self) -> int | None:
        """Its exit code (negative for a signal), or None while it lives; never waits."""
        if self._code is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                self._code = UNKNOWN_CODE
                return self._code
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def end(self, limit: float) -> None:
        """SIGKILL, where it lives, and up to `limit` seconds for it to be gone."""
        if self.exit_code() is None:
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
                self.wait(limit)

    def wait(self, limit: float) -> bool:
        """Whether it has ended within `limit` seconds, which whoever calls this has seen to."""
        until = time.monotonic() + limit
        while self.exit_code() is None:
            if time.monotonic() > until:
                return False
            time.sleep(TICK)
        return True
