"""Starting a process that outlives its parent and its terminal."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from torchdeck.agent.processes.detached_process import DetachedProcess
from torchdeck.quantities import size

__all__ = ["PIPE_LIMIT", "DetachedProcess", "start_detached", "start_waiting"]

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


def start_detached(
    argv: Sequence[str], env: Mapping[str, str], log: Path, standard_input: bytes = b""
) -> DetachedProcess:
    """Start `argv` in a session of its own: no terminal, output appended to `log`.

    Args:
        argv: program (an absolute path) and arguments.
        env: its whole environment.
        log: file for standard output and error.
        standard_input: all that it can read, through a pipe; at most `PIPE_LIMIT` bytes.

    Raises:
        OSError: it cannot be started, or the log cannot be opened.
    """
    if not standard_input:
        return _spawn(argv, env, log, (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0))
    if len(standard_input) > PIPE_LIMIT:
        raise OSError(errno.EFBIG, f"what it is to read is longer than {size(PIPE_LIMIT)}")
    reading, writing = os.pipe()
    try:
        os.write(writing, standard_input)  # a pipe holds as much before anybody reads
        os.close(writing)
        return _spawn(argv, env, log, (os.POSIX_SPAWN_DUP2, reading, 0))
    finally:
        os.close(reading)


def start_waiting(argv: Sequence[str], env: Mapping[str, str]) -> tuple[DetachedProcess, int]:
    """As `start_detached`, without a log; and the end of a pipe that it reads, which no other child has.

    Raises:
        OSError: it cannot be started.
    """
    reading, writing = os.pipe()
    try:
        waits = (os.POSIX_SPAWN_DUP2, reading, 0)
        return _spawn(argv, env, Path(os.devnull), waits), writing
    except OSError:
        os.close(writing)
        raise
    finally:
        os.close(reading)


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
        with suppress(OSError):
            if int(name) > 2 and os.get_inheritable(int(name)):
                found.append(int(name))
    return found
