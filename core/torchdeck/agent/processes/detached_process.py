"""Processes that outlive their parent and its terminal."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchdeck.contract.byte_size import size
from torchdeck.contract.waiting import wait_for

UNKNOWN_CODE = 255
"""Exit code of a child that was reaped elsewhere, or by the kernel because SIGCHLD is ignored."""
TICK = 0.002
DEFAULT_SIGNALS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGPIPE,
    signal.SIGCHLD,
)
"""Reset in the child: `nohup` and background jobs of shells leave some ignored, for ranks to inherit."""

PIPE_LIMIT = 60_000
"""Bytes; a pipe takes as many before anyone reads."""


class DetachedProcess:
    """A child in a session of its own; reaped when it is asked after."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def exit_code(self) -> int | None:
        """Return its exit code (negative for a signal), or None while it is alive; never waits."""
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
        """Send SIGKILL if it is alive, and wait up to `limit` seconds for its end."""
        if self.exit_code() is None:
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
                self.wait(limit)

    def wait(self, limit: float) -> bool:
        """Whether it has ended within `limit` seconds, which whoever calls this has seen to."""
        return wait_for(self.exit_code, limit, TICK) is not None


def start_detached(
    argv: Sequence[str], env: Mapping[str, str], log: Path, standard_input: bytes | int = b""
) -> DetachedProcess:
    """Start `argv` in a session of its own: no terminal, output appended to `log`.

    Args:
        argv: program (an absolute path) and arguments.
        env: its whole environment.
        log: file for standard output and error.
        standard_input: all that it can read, through a pipe, at most `PIPE_LIMIT` bytes; or a descriptor.

    Raises:
        OSError: it cannot be started, or the log cannot be opened.
    """
    if standard_input == b"":
        return _spawn(argv, env, log, (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0))
    if isinstance(standard_input, int):
        return _spawn(argv, env, log, (os.POSIX_SPAWN_DUP2, standard_input, 0))
    reading = _pipe_with(standard_input)
    try:
        return _spawn(argv, env, log, (os.POSIX_SPAWN_DUP2, reading, 0))
    finally:
        os.close(reading)


def _pipe_with(content: bytes) -> int:
    """The reading end of a pipe that holds `content` and ends after it."""
    if len(content) > PIPE_LIMIT:
        raise OSError(
            errno.EFBIG, f"standard input has {size(len(content))}; {size(PIPE_LIMIT)} are the most"
        )
    reading, writing = os.pipe()
    os.set_blocking(writing, False)  # a user with very many pipes gets smaller ones
    try:
        written = os.write(writing, content)
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    if written != len(content):
        os.close(reading)
        raise OSError(errno.EFBIG, f"a pipe does not take the {size(len(content))} of standard input")
    return reading


def _spawn(
    argv: Sequence[str], env: Mapping[str, str], log: Path, standard_input: tuple[Any, ...]
) -> DetachedProcess:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        argv[0],
        list(argv),
        dict(env),
        file_actions=[
            standard_input,
            (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
            *((os.POSIX_SPAWN_CLOSE, descriptor) for descriptor in _inheritable()),
        ],
        setsid=True,
        setsigdef=DEFAULT_SIGNALS,
        setsigmask=(),
    )
    return DetachedProcess(pid)


def _inheritable() -> list[int]:
    """Descriptors that whoever started us left open: their pipes would otherwise not end before the run."""
    found = []
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names are all that is wanted
        with contextlib.suppress(OSError):
            if int(name) > 2 and os.get_inheritable(int(name)):
                found.append(int(name))
    return found
