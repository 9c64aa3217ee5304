"""Opening of a probe session with a node: separate from the requests, which can be loaded meanwhile."""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from torchdeck.agent.processes.child_process import ChildProcess
from torchdeck.nodes.activation import start_python
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.probe.probe_session import ARGUMENTS, ProbeError, ProbeSession
from torchdeck.nodes.ssh.connection import Connection

LIMIT = 12.0
"""Timeout in seconds from connecting to the last answer; a launch is rejected within 15."""

Connect = Callable[[str, float], Connection]
"""Node's name and seconds → a connection to it; raises SshError."""
Talking = Callable[[str, NodeEntry, Connect, float], AbstractContextManager[ProbeSession]]
"""Signature of `open_probe_session`."""


@contextmanager
def open_probe_session(name: str, entry: NodeEntry, connect: Connect, limit: float) -> Iterator[ProbeSession]:
    """Open a probe session with a node's Python for the duration of the block.

    Args:
        name: name of the node.
        entry: its entry in the node inventory.
        connect: opens the connection.
        limit: timeout in seconds until it accepts requests; the session's `spent` says how many were used.

    Raises:
        SshError, ProbeError: it cannot be reached, or its Python does not answer.
    """
    with connect(name, limit) as connection:
        until = time.monotonic() + limit - connection.seconds
        process = start_python(connection, entry, ARGUMENTS, left(until))
        probe_session = ProbeSession(process, f"node {name}", limit - left(until))
        try:
            yield probe_session
        finally:
            probe_session.close()


def left(until: float) -> float:
    """Return the seconds until that moment of the monotonic clock; 0 if it is over."""
    return max(0.0, until - time.monotonic())


# Probe session with a Python of this machine, like one with a node.

MOST_STDERR = 64 * 2**10
"""Bytes kept of standard error, the last ones."""
END_LIMIT = 10.0
"""Seconds to finish after the end of its standard input."""


class LocalProcess:
    """Child process with its standard input and output."""

    def __init__(self, python: str) -> None:
        """Start the process. Raises OSError if it cannot be started."""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        try:
            self._process = ChildProcess(
                [python, *ARGUMENTS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
            )
        except OSError:
            self._errors.close()
            raise
        assert self._process.stdin is not None  # noqa: S101 - for the type checker
        assert self._process.stdout is not None  # noqa: S101
        self._input, self._output = self._process.stdin, self._process.stdout

    @property
    def stderr(self) -> bytes:
        """End of its standard error so far."""
        return os.pread(self._errors.fileno(), MOST_STDERR, max(0, self._said() - MOST_STDERR))

    def _said(self) -> int:
        return os.fstat(self._errors.fileno()).st_size

    def write(self, data: bytes) -> None:
        self._input.write(data)
        self._input.flush()

    def read(self, size: int, limit: float) -> bytes:
        until = time.monotonic() + limit
        ready, _, _ = select.select([self._output], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            raise TimeoutError
        return os.read(self._output.fileno(), size)

    def close(self) -> None:
        self._process.end(grace=END_LIMIT)
        self._errors.close()


@contextmanager
def probe_session_here(name: str, python: str) -> Iterator[ProbeSession]:
    """Open a probe session with `python` of this machine. Raises ProbeError if it does not answer."""
    try:
        process = LocalProcess(python)
    except OSError as error:
        raise ProbeError(f"node {name}: {python} cannot be started: {error.strerror}") from error
    try:
        yield ProbeSession(process, f"node {name}")
    finally:
        process.close()
