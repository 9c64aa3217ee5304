"""Starting the processes that fork for tests: one for each Python, and for all workers of a run together.

Torch is imported by a server once the first test asks, which costs as much CPU as a hundred forks.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

TESTS = Path(__file__).parents[2]
ADDRESSES = "TESTS_TORCH_SERVERS"
"""The variable in which workers find the servers: JSON, the folder of the server of each Python."""
SAID = "stderr"
"""File in a server's folder: its standard error, for where it ends by itself."""
_SOCKET = "socket"
_END_LIMIT = 10.0
_BACKLOG = 64


class TorchServer:
    """One server, which ends with this process at the latest."""

    def __init__(self, python: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="torch-server-")
        self.folder = Path(self._folder.name)
        self._life, theirs = socket.socketpair()
        with theirs, _listening(self.folder) as listening, (self.folder / SAID).open("wb") as said:
            fds = (listening.fileno(), theirs.fileno())
            self._process = subprocess.Popen(
                [python, "-m", "support.ranks.torch_server", *map(str, fds)],
                env={
                    **os.environ,
                    "OMP_NUM_THREADS": "1",
                    "CUDA_VISIBLE_DEVICES": "",
                    "KINETO_LOG_LEVEL": "5",
                    "PYTHONPATH": os.pathsep.join(sources(python)),
                },
                cwd=TESTS,
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
            )
        atexit.register(self.end)

    def end(self) -> None:
        """End it, and all that it has forked."""
        atexit.unregister(self.end)
        self._life.close()
        try:
            self._process.wait(_END_LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_END_LIMIT)
        self._folder.cleanup()


def sources(python: str) -> list[str]:
    """What PYTHONPATH needs: tests, and for another Python, which has no Torchdeck, that too."""
    beside = [] if python == sys.executable else [TESTS.parent / "core", TESTS.parent / "resources"]
    return [str(path) for path in (TESTS, *beside)]


def serve_workers(pythons: Sequence[str]) -> list[TorchServer]:
    """Start one of each, for all processes that begin from now on with this one's environment."""
    servers = {python: TorchServer(python) for python in pythons}
    os.environ[ADDRESSES] = json.dumps({python: str(server.folder) for python, server in servers.items()})
    return list(servers.values())


def connected(folder: Path) -> socket.socket:
    """A connection to the server of this folder; what it forks for it ends with it."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        made.connect(str(folder / _SOCKET))
    except OSError as error:
        made.close()
        raise RuntimeError(f"the process that forks has ended: {said_by(folder)}") from error
    atexit.register(made.close)
    return made


def said_by(folder: Path) -> str:
    """What the server of this folder has written to its standard error."""
    with contextlib.suppress(OSError):
        return (folder / SAID).read_text(errors="replace")
    return "and its folder is gone"


def _listening(folder: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.bind(str(folder / _SOCKET))
    made.listen(_BACKLOG)
    return made
