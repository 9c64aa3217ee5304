"""Real ranks for measuring memory: torch is imported once, the ranks of every job are forked from there.

`python -m support.ranks.measured_ranks MODULE:FUNCTION` reads jobs as a JSON list from stdin, each an object
with `world_size` and whatever FUNCTION wants. It prints a JSON list: for each job, what FUNCTION(job)
returned on every rank.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from support.ranks.forked_rank import ForkedRank
from support.ranks.no_object_collectives import refuse_object_collectives
from support.ranks.torch_process import run_torch
from support.ranks.torch_servers import sources
from support.system.free_port import free_port

JOB_SECONDS = 200.0
"""Until ranks that hang are killed."""

Job = dict[str, Any]


def measure(
    function: str, jobs: Sequence[Job], *, limit: float = 600.0, python: str = sys.executable
) -> list[list[Any]]:
    """What `function` (module:name) returned under `python`, by job and rank; raises where a rank failed."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        # the profiler counts what it is told; nothing of it is to be printed
        "KINETO_LOG_LEVEL": "5",
        "PYTHONPATH": os.pathsep.join([*sources(python), os.environ.get("PYTHONPATH", "")]),
    }
    argv = ["-m", "support.ranks.measured_ranks", function]
    done = run_torch(argv, given=json.dumps(list(jobs)), env=environment, limit=limit, python=python)
    if done.returncode:
        raise RuntimeError(done.stderr[-6000:])
    found: list[list[Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def run_job(body: Callable[[Job], Any], job: Job) -> list[Any]:
    """`body(job)` on each of the job's ranks."""
    port = free_port()
    ranks = [ForkedRank.start(partial(_in_rank, body, job, rank, port)) for rank in range(job["world_size"])]
    deadline = time.monotonic() + JOB_SECONDS
    outcomes = [rank.finish(deadline, JOB_SECONDS) for rank in ranks]
    for rank, outcome in enumerate(outcomes):
        if outcome.error or not outcome.said:
            raise SystemExit(f"job {job}, rank {rank}: {outcome.error or 'died'}")
    return [outcome.result for outcome in outcomes]


def _in_rank(body: Callable[[Job], Any], job: Job, rank: int, port: int) -> Any:
    world = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": job["world_size"], "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in world.items()}, MASTER_ADDR="127.0.0.1")
    refuse_object_collectives()
    return body(job)


def main() -> None:
    import torch
    import torch._dynamo  # what FSDP imports when it is first used: once for all ranks

    torch.set_num_threads(1)
    module, _, name = sys.argv[1].partition(":")
    body = getattr(importlib.import_module(module), name)
    print(json.dumps([run_job(body, job) for job in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()
