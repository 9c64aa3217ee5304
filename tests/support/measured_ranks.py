"""Real ranks for measuring memory: torch is imported once, the ranks of every job are forked from there.

`python -m support.measured_ranks MODULE:FUNCTION` reads jobs as a JSON list from stdin, each an object with
`world_size` and whatever FUNCTION wants, and prints a JSON list: for each job, what FUNCTION(job) returned on
every rank.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

JOB_SECONDS = 90.0
"""Until ranks that hang are killed."""

Job = dict[str, Any]


def measure(function: str, jobs: Sequence[Job], *, limit: float = 600.0) -> list[list[Any]]:
    """What `function` (module:name) returned, by job and rank; raises where a rank failed."""
    done = subprocess.run(
        [sys.executable, "-m", "support.measured_ranks", function],
        input=json.dumps(list(jobs)),
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
            # the profiler counts what it is told; nothing of it is to be printed
            "KINETO_LOG_LEVEL": "5",
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]),
        },
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-6000:])
    found: list[list[Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def run_job(body: Callable[[Job], Any], job: Job) -> list[Any]:
    """`body(job)` on each of the job's ranks."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    children = [_start(body, job, rank, port) for rank in range(job["world_size"])]
    limit = time.monotonic() + JOB_SECONDS
    outcomes = [_finish(pid, pipe, limit) for pid, pipe in children]
    for rank, outcome in enumerate(outcomes):
        if "result" not in outcome:
            raise SystemExit(f"job {job}, rank {rank}: {outcome.get('error', 'died')}")
    return [outcome["result"] for outcome in outcomes]


def _start(body: Callable[[Job], Any], job: Job, rank: int, port: int) -> tuple[int, int]:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    os.close(reader)
    world = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": job["world_size"], "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in world.items()}, MASTER_ADDR="127.0.0.1")
    try:
        message = {"result": body(job)}
    except BaseException:  # noqa: BLE001 - the outcome of the rank, whatever it is
        message = {"error": traceback.format_exc()}
    content = json.dumps(message).encode()
    while content:
        content = content[os.write(writer, content) :]
    # the peers' connections close with the process
    os._exit(0)


def _finish(pid: int, pipe: int, limit: float) -> dict[str, Any]:
    content = b""
    while True:
        ready, _, _ = select.select([pipe], [], [], max(0.0, limit - time.monotonic()))
        if not ready:
            os.kill(pid, signal.SIGKILL)
            content = json.dumps({"error": f"hung: killed after {JOB_SECONDS} s"}).encode()
            break
        chunk = os.read(pipe, 1 << 16)
        if not chunk:
            break
        content += chunk
    os.close(pipe)
    os.waitpid(pid, 0)
    message: dict[str, Any] = json.loads(content) if content else {}
    return message


def main() -> None:
    import torch
    import torch._dynamo  # what FSDP imports when it is first used: once for all ranks

    torch.set_num_threads(1)
    module, _, name = sys.argv[1].partition(":")
    body = getattr(importlib.import_module(module), name)
    print(json.dumps([run_job(body, job) for job in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()
