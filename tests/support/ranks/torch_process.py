"""Processes of their own that need not import torch: forked where it is imported already.

    done = run_torch(["-m", "support.ranks.checkpoint_ranks", "other_world", str(folder)], cwd=TESTS)
    rank = TorchProcess(["-m", "torchdeck.distributed.entry"], env={...})

They are what `subprocess.run` and `subprocess.Popen` of Python with these arguments would be, but for the
seconds of CPU that each import takes. What was forked lives no longer than the process of the tests.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from support.ranks.torch_servers import ADDRESSES, TorchServer, connected, said_by

STARTED_IN = 120.0
"""Seconds in which a server forks, even where it must import torch first on a busy machine."""
_ADDRESSES: dict[str, str] = json.loads(os.environ.get(ADDRESSES, "{}"))


@dataclass(frozen=True)
class _Server:
    """The process that forks, of one Python."""

    folder: Path
    requests: socket.socket


@functools.lru_cache(maxsize=4)
def _server(python: str) -> _Server:
    """The one of all workers, or where there are none this process's own, once it is first needed."""
    address = _ADDRESSES.get(python)
    folder = TorchServer(python).folder if address is None else Path(address)
    return _Server(folder, connected(folder))


class TorchProcess:
    """One forked process; standard output and error are kept until `communicate`."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | str = ".",
        given: str = "",
        python: str = sys.executable,
    ) -> None:
        """Start `python ARGV` (`-m MODULE …`, `-c CODE …` or `FILE …`) with `given` as its standard input."""
        self.returncode: int | None = None
        self._server = _server(python)
        self._files = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - for `communicate`
        request = {
            "argv": list(argv),
            "env": dict(os.environ if env is None else env),
            "cwd": str(Path(cwd).absolute()),
        }
        reader, writer = os.pipe()
        self._status = os.fdopen(reader, "rb", buffering=0)
        with os.fdopen(writer, "wb") as status, tempfile.TemporaryFile() as stdin:
            stdin.write(given.encode())
            stdin.seek(0)
            fds = [file.fileno() for file in (stdin, *self._files, status)]
            socket.send_fds(self._server.requests, [json.dumps(request).encode()], fds)
        self.pid = self._told("pid", STARTED_IN)

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self.returncode = self._told("status", 0)
        return self.returncode

    def wait(self, timeout: float) -> int:
        """As `subprocess.Popen.wait`."""
        if self.returncode is None:
            self.returncode = self._told("status", timeout)
        return self.returncode

    def communicate(self, timeout: float) -> tuple[str, str]:
        """What it has written to standard output and error, once it has ended."""
        self.wait(timeout)
        stdout, stderr = map(_read, self._files)
        return stdout, stderr

    def send_signal(self, number: signal.Signals) -> None:
        """Nothing if it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _told(self, what: str, seconds: float) -> int:
        """The next thing that the server tells of it."""
        began = time.monotonic()
        if not select.select([self._status], [], [], max(0.0, seconds))[0]:
            raise subprocess.TimeoutExpired([what], time.monotonic() - began)
        content = self._status.readline()
        if what == "status":
            self._status.close()
        if not content:
            raise RuntimeError(f"the process that forks has ended: {said_by(self._server.folder)}")
        return int(json.loads(content)[what])


def run_torch(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | str = ".",
    given: str = "",
    limit: float,
    python: str = sys.executable,
) -> subprocess.CompletedProcess[str]:
    """Wait for such a process; at `limit` seconds it is killed and TimeoutExpired is raised."""
    process = TorchProcess(argv, env=env, cwd=cwd, given=given, python=python)
    try:
        stdout, stderr = process.communicate(limit)
    finally:
        process.kill()
    return subprocess.CompletedProcess([python, *argv], process.wait(10), stdout, stderr)


def _read(file: IO[bytes]) -> str:
    with file:
        file.seek(0)
        return file.read().decode()
