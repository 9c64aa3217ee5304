"""Stands in for torchrun where the agent is tested: starts in 50 ms instead of 3 s, and behaves alike.

Workers in sessions of their own; SIGTERM is passed to their groups; the first failure ends the others, exit
code 1 then. In attempts that FAKE_TAKEN_ATTEMPTS names it says what torchrun says when its port is taken.
With FAKE_BARRIER it ends once there is such a file, as torchrun does once the ranks of all nodes have ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

GRACE = 30.0


class Told(BaseException):
    """A signal came."""


def raise_told(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Told


def end(workers: list[subprocess.Popen[bytes]]) -> None:
    """SIGTERM to each group, SIGKILL after torchrun's shutdown timeout."""
    for worker in workers:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGTERM)
    limit = time.monotonic() + GRACE
    for worker in workers:
        try:
            worker.wait(max(0.0, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(worker.pid, signal.SIGKILL)


def is_open(barrier: str | None) -> bool:
    """The exit barrier: who comes to it waits for the ranks of other nodes."""
    return barrier is None or Path(barrier).exists()


def main(arguments: list[str]) -> int:
    flags = arguments[: arguments.index("--no-python")]
    command = arguments[arguments.index("--no-python") + 1 :]
    nproc = int(flags[flags.index("--nproc-per-node") + 1])
    port = flags[flags.index("--master-port") + 1]
    taken = os.environ.get("FAKE_TAKEN_ATTEMPTS", "").split(",")
    if os.environ.get("TORCHDECK_ATTEMPT") in taken:
        print(
            f"torch.distributed.DistNetworkError: port: {port}, code: -98, name: EADDRINUSE", file=sys.stderr
        )
        return 1
    signal.signal(signal.SIGTERM, raise_told)
    workers: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(nproc):
            env = {
                **os.environ,
                "RANK": str(int(os.environ.get("FAKE_FIRST_RANK", "0")) + rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": os.environ.get("FAKE_WORLD_SIZE", str(nproc)),
            }
            workers.append(subprocess.Popen(command, env=env, start_new_session=True))
        while True:
            codes = [worker.poll() for worker in workers]
            if any(codes):
                end(workers)
                return 1
            if all(code == 0 for code in codes) and is_open(os.environ.get("FAKE_BARRIER")):
                return 0
            time.sleep(0.02)
    except Told:
        end(workers)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
