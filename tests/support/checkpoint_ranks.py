"""Runs a scenario in real ranks: `python -m support.checkpoint_ranks SCENARIO FOLDER [ARG…]`.

It prints one JSON value. torch is imported once; the ranks of every round are forked from here, so that a
scenario of many rounds is cheap. A rank that dies or hangs is an outcome, not an error.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

ROUND_SECONDS = 60.0


@dataclass
class Outcome:
    """How one rank ended."""

    result: Any = None
    error: str = ""
    """Traceback of what it raised."""
    signal: int = 0


@dataclass(frozen=True)
class Rank:
    """What a rank's function is given."""

    rank: int
    world_size: int


def run_round(folder: Path, world_size: int, body: Callable[[Rank], Any]) -> list[Outcome]:
    """`body` in `world_size` forked ranks joined over gloo; those that hang are killed."""
    rendezvous = folder / f"rendezvous-{os.getpid()}-{time.monotonic_ns()}"
    children = [_start(Rank(rank, world_size), rendezvous, body) for rank in range(world_size)]
    limit = time.monotonic() + ROUND_SECONDS
    outcomes = [_finish(pid, pipe, limit) for pid, pipe in children]
    rendezvous.unlink(missing_ok=True)
    return outcomes


def results(outcomes: list[Outcome]) -> list[Any]:
    """Each rank's result; stops with the traceback of one that failed."""
    for rank, outcome in enumerate(outcomes):
        if outcome.error or outcome.signal:
            raise SystemExit(f"rank {rank}: signal {outcome.signal}\n{outcome.error}")
    return [outcome.result for outcome in outcomes]


def _start(rank: Rank, rendezvous: Path, body: Callable[[Rank], Any]) -> tuple[int, int]:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    os.close(reader)
    try:
        if rank.world_size > 1:
            dist.init_process_group(
                "gloo", init_method=f"file://{rendezvous}", rank=rank.rank, world_size=rank.world_size
            )
        message = {"result": body(rank)}
    except BaseException:  # noqa: BLE001 - the outcome of the rank, whatever it is
        message = {"error": traceback.format_exc()}
    content = json.dumps(message).encode()
    while content:
        content = content[os.write(writer, content) :]
    os.close(writer)
    # the peers' connections close with the process; destroying the group would wait for them
    os._exit(0)


def _finish(pid: int, pipe: int, limit: float) -> Outcome:
    content = b""
    while True:
        ready, _, _ = select.select([pipe], [], [], max(0.0, limit - time.monotonic()))
        if not ready:
            os.kill(pid, signal.SIGKILL)
            content = json.dumps({"error": f"rank hung: killed after {ROUND_SECONDS} s"}).encode()
            break
        chunk = os.read(pipe, 1 << 16)
        if not chunk:
            break
        content += chunk
    os.close(pipe)
    _, status = os.waitpid(pid, 0)
    message = json.loads(content) if content else {}
    return Outcome(
        message.get("result"), message.get("error", ""), os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    )


def main() -> None:
    torch.set_num_threads(1)
    from support import checkpoint_scenarios

    name, folder, *arguments = sys.argv[1:]
    print(json.dumps(getattr(checkpoint_scenarios, name)(Path(folder), *arguments)))


if __name__ == "__main__":
    main()
