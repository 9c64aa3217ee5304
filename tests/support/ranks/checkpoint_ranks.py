"""Runs a scenario in real ranks: `python -m support.ranks.checkpoint_ranks MODULE.SCENARIO FOLDER [ARG…]`.

It prints one JSON value. torch is imported once; the ranks of every round are forked from here, so that a
scenario of many rounds is cheap. A rank that dies or hangs is an outcome, not an error.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from support.ranks.forked_rank import ForkedRank, Outcome
from support.ranks.no_object_collectives import refuse_object_collectives

ROUND_SECONDS = 60.0


@dataclass(frozen=True)
class Rank:
    """What a rank's function is given."""

    rank: int
    world_size: int


def run_round(folder: Path, world_size: int, body: Callable[[Rank], Any]) -> list[Outcome]:
    """`body` in `world_size` forked ranks joined over gloo; those that hang are killed."""
    rendezvous = folder / f"rendezvous-{os.getpid()}-{time.monotonic_ns()}"
    ranks = [
        ForkedRank.start(partial(_in_rank, Rank(rank, world_size), rendezvous, body))
        for rank in range(world_size)
    ]
    deadline = time.monotonic() + ROUND_SECONDS
    outcomes = [rank.finish(deadline, ROUND_SECONDS) for rank in ranks]
    rendezvous.unlink(missing_ok=True)
    return outcomes


def results(outcomes: list[Outcome]) -> list[Any]:
    """Each rank's result; stops with the traceback of one that failed."""
    for rank, outcome in enumerate(outcomes):
        if outcome.error or outcome.signal:
            raise SystemExit(f"rank {rank}: signal {outcome.signal}\n{outcome.error}")
    return [outcome.result for outcome in outcomes]


def _in_rank(rank: Rank, rendezvous: Path, body: Callable[[Rank], Any]) -> Any:
    refuse_object_collectives()
    if rank.world_size > 1:
        dist.init_process_group(
            "gloo", init_method=f"file://{rendezvous}", rank=rank.rank, world_size=rank.world_size
        )
    return body(rank)


def main() -> None:
    torch.set_num_threads(1)
    name, folder, *arguments = sys.argv[1:]
    module, _, function = name.partition(".")
    scenarios = importlib.import_module(f"support.ranks.checkpoint_scenarios.{module}")
    print(json.dumps(getattr(scenarios, function)(Path(folder), *arguments)))


if __name__ == "__main__":
    main()
