"""Has torch imported and forks on request: `python -m support.ranks.torch_server LISTENING LIFE`.

LISTENING and LIFE are descriptors. Whoever connects to the first asks; torch is imported once someone does.
Each request is JSON, {"argv", "env", "cwd"}, with four descriptors: standard input, output and error, and a
pipe on which the server tells {"pid"} and, at the end, {"status"}. The fork continues as `python ARGV` would,
but for the seconds that importing torch takes. What was forked for a connection ends with it, and all with
the end of LIFE, which nothing is ever read from.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import json
import os
import runpy
import select
import signal
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

LARGEST = 1 << 20
"""Bytes of a request."""


class Fork(NamedTuple):
    """What runs: the pipe on which its end is told, and who asked for it."""

    pipe: int
    client: socket.socket


@dataclass
class Server:
    """Forks, and tells how what it forked ended."""

    listening: socket.socket
    life: int
    _clients: list[socket.socket] = field(default_factory=list)
    _forks: dict[int, Fork] = field(default_factory=dict)
    """By pid."""

    def is_asked(self) -> bool:
        """Wait for someone; False where the server is to end instead."""
        ready, _, _ = select.select([self.listening.fileno(), self.life], [], [])
        return self.life not in ready

    def next_fork(self) -> dict[str, Any] | None:
        """In each fork: what it is to be. In the server itself: None, once it is to end."""
        ended, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        while True:
            waited_for: list[int | socket.socket] = [ended, self.life, self.listening, *self._clients]
            ready, _, _ = select.select(waited_for, [], [])
            if ended in ready:
                os.read(ended, 4096)
                self._reap()
            if self.life in ready:
                self._end(self._clients)
                return None
            if self.listening in ready:
                self._clients.append(self.listening.accept()[0])
            for client in [one for one in self._clients if one in ready]:
                content, fds, _, _ = socket.recv_fds(client, LARGEST, 4)
                if not content:
                    self._end([client])
                elif self._fork(client, fds):
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for fd in (ended, wake):
                        os.close(fd)
                    request: dict[str, Any] = json.loads(content)
                    return request

    def _fork(self, client: socket.socket, fds: list[int]) -> bool:
        """Whether this is the fork."""
        pid = os.fork()
        if pid:
            for fd in fds[:3]:
                os.close(fd)
            self._forks[pid] = Fork(fds[3], client)
            _tell(fds[3], {"pid": pid})
            return False
        for one in (self.listening, *self._clients):
            one.close()
        for number, fd in enumerate(fds[:3]):
            os.dup2(fd, number)
        for fd in (self.life, *fds, *(fork.pipe for fork in self._forks.values())):
            os.close(fd)
        return True

    def _reap(self) -> None:
        for pid, fork in list(self._forks.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                _tell(fork.pipe, {"status": os.waitstatus_to_exitcode(status)})
                os.close(self._forks.pop(pid).pipe)

    def _end(self, clients: list[socket.socket]) -> None:
        """No one waits any more for what was forked for these."""
        for pid, fork in self._forks.items():
            if fork.client in clients:
                os.kill(pid, signal.SIGKILL)
        for client in list(clients):
            self._clients.remove(client)
            client.close()


def _tell(pipe: int, what: dict[str, int]) -> None:
    with contextlib.suppress(BrokenPipeError):  # no one waits for it any more
        os.write(pipe, json.dumps(what).encode() + b"\n")


def import_what_takes_long() -> None:
    """Once for all forks; nothing of it may start a thread, which a fork would lack."""
    import torch
    import torch._dynamo
    import torch.distributed.checkpoint
    import torch.distributed.device_mesh
    import torch.distributed.fsdp
    import torch.distributed.tensor
    import torch.utils.data

    if importlib.util.find_spec("deepspeed") is not None:
        import_deepspeed()
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # else each fork copies and walks a million objects with its first full collection
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads > 1:
        raise RuntimeError(f"{threads} threads after importing torch: a fork has only the one that forks")


def import_deepspeed() -> None:
    """And what its first engine imports."""
    os.environ["DS_ACCELERATOR"] = "cpu"
    for name in ("deepspeed", "torch._inductor.compile_fx", "deepspeed.runtime.zero.stage3"):
        importlib.import_module(name)


def become(request: dict[str, Any]) -> None:
    """Continue as `python ARGV` does: `-m MODULE …`, `-c CODE …` or `FILE …`."""
    before = set(os.environ.get("PYTHONPATH", "").split(os.pathsep))
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    given = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    own = [path for path in sys.path[1:] if path not in before]
    argv: list[str] = request["argv"]
    first = str(Path(argv[0]).absolute().parent) if not argv[0].startswith("-") else os.getcwd()  # noqa: PTH109
    sys.path[:] = [first, *given, *own]
    if argv[0] == "-m":
        sys.argv = argv[1:]
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
    elif argv[0] == "-c":
        sys.argv = ["-c", *argv[2:]]
        exec(compile(argv[1], "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - a test's own code
    else:
        sys.argv = argv
        runpy.run_path(argv[0], run_name="__main__")


def main() -> None:
    server = Server(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
    request = None
    if server.is_asked():
        import_what_takes_long()
        request = server.next_fork()
    if request is None:
        os._exit(0)  # torch takes its time to end
    become(request)


if __name__ == "__main__":
    main()
