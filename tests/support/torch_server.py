"""A process that has torch imported and forks on request: `python -m support.torch_server FD`.

Each request on the socket FD is JSON, {"argv", "env", "cwd"}, with four descriptors: standard input, output
and error, and a pipe on which the server tells {"pid"} and, at the end, {"status"}. The fork goes on as
`python ARGV` would, but for the seconds that importing torch takes. With the socket's end the server ends,
and what it forked.
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
from typing import Any

LARGEST = 1 << 20
"""Bytes of a request."""


@dataclass
class Server:
    """Forks, and tells how what it forked ended."""

    requests: socket.socket
    _pipes: dict[int, int] = field(default_factory=dict)
    """Of what runs, by pid: where its end is told."""

    def next_fork(self) -> dict[str, Any] | None:
        """In each fork: what it is to be. In the server itself: None, once nobody asks any more."""
        ended, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        while True:
            ready, _, _ = select.select([self.requests.fileno(), ended], [], [])
            if ended in ready:
                os.read(ended, 4096)
                self._reap()
            if self.requests.fileno() in ready:
                content, fds, _, _ = socket.recv_fds(self.requests, LARGEST, 4)
                if not content:
                    self._end_all()
                    return None
                request: dict[str, Any] = json.loads(content)
                if self._fork(fds):
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for fd in (ended, wake):
                        os.close(fd)
                    return request

    def _fork(self, fds: list[int]) -> bool:
        """Whether this is the fork."""
        pid = os.fork()
        if pid:
            for fd in fds[:3]:
                os.close(fd)
            self._pipes[pid] = fds[3]
            _tell(fds[3], {"pid": pid})
            return False
        self.requests.close()
        for number, fd in enumerate(fds[:3]):
            os.dup2(fd, number)
        for fd in (*fds, *self._pipes.values()):
            os.close(fd)
        return True

    def _reap(self) -> None:
        for pid, pipe in list(self._pipes.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                _tell(pipe, {"status": os.waitstatus_to_exitcode(status)})
                os.close(self._pipes.pop(pid))

    def _end_all(self) -> None:
        for pid in self._pipes:
            os.kill(pid, signal.SIGKILL)


def _tell(pipe: int, what: dict[str, int]) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
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
    """Go on as `python ARGV` does: `-m MODULE …`, `-c CODE …` or `FILE …`."""
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
    import_what_takes_long()
    request = Server(socket.socket(fileno=int(sys.argv[1]))).next_fork()
    if request is None:
        os._exit(0)  # torch takes its time to end
    become(request)


if __name__ == "__main__":
    main()
