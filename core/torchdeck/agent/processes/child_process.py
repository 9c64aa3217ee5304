"""A child in a process group of its own: its lines, its exit code, and its end.

Standard library, Python 3.10.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

from torchdeck.contract.waiting import wait_for

_TICK = 0.005
_READ_SIZE = 1 << 16
_File = int | IO[bytes]


class ChildProcess:
    """Started at once. Its processes are a session of their own, so that all of them can be ended.

    Attributes:
        stdin, stdout, stderr: this end of the pipes that were asked for, else None.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        stdin: _File = subprocess.DEVNULL,
        stdout: _File = subprocess.DEVNULL,
        stderr: _File = subprocess.DEVNULL,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        umask: int = -1,
        pass_fds: Sequence[int] = (),
    ) -> None:
        """Raises OSError if it cannot be started."""
        self._process = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=env,
            cwd=cwd,
            umask=umask,
            pass_fds=pass_fds,
            start_new_session=True,
        )
        self.stdin, self.stdout, self.stderr = (
            self._process.stdin,
            self._process.stdout,
            self._process.stderr,
        )

    def exit_code(self, limit: float = 0.0) -> int | None:
        """The exit code, negative for a signal; None if it is still running after `limit` seconds."""
        return wait_for(self._status, limit, _TICK)

    def send(self, data: bytes) -> None:
        """Write to its standard input; if it has ended, nothing."""
        assert self.stdin is not None  # noqa: S101 - a pipe was asked for
        with contextlib.suppress(BrokenPipeError):
            self.stdin.write(data)
            self.stdin.flush()

    def lines(self, silence: float) -> Iterator[bytes]:
        """Lines of its standard output until that is closed.

        Raises:
            TimeoutError: it has written nothing for `silence` seconds.
        """
        assert self.stdout is not None  # noqa: S101 - a pipe was asked for
        pending = b""
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.stdout, selectors.EVENT_READ)
            while True:
                if not waiting.select(silence):
                    raise TimeoutError
                data = os.read(self.stdout.fileno(), _READ_SIZE)
                if not data:
                    return
                *lines, pending = (pending + data).split(b"\n")
                yield from lines

    def end(self, first: signal.Signals | None = None, grace: float = 0.0) -> None:
        """Close its standard input and end it; whatever is left of its group then gets SIGKILL.

        Args:
            first: sent if it is still running. None: the end of its standard input is the request.
            grace: seconds from then until SIGKILL.
        """
        if self.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # closing flushes what it does not read any more
                self.stdin.close()
        if first is not None and self._status() is None:
            self._signal(first)
        self.exit_code(grace)
        self._signal(signal.SIGKILL)
        self._process.wait()
        for pipe in (self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()

    def _status(self) -> int | None:
        """As `exit_code`. The child is not reaped, so its number stays that of its group."""
        if self._process.returncode is not None:
            return self._process.returncode
        status = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if status is None:
            return None
        return status.si_status if status.si_code == os.CLD_EXITED else -status.si_status

    def _signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
