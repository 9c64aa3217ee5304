"""Our trainer beside a hand-written torch loop, Hugging Face Accelerate and Lightning, on one rank and two.

Throughput is judged where steps take what they take in earnest, 15 ms and more. A trainer's own work costs
some tens of microseconds to a few hundred a step, however long the step is: of a step of 2 ms, of which no
training consists, that is a tenth. Such short steps are here too, as they show this fixed cost best: the time
that a step of a trainer takes longer than one of the hand-written loop, ours beside each library's.

Ours is measured as its users run it, in a run with its directory: the hooks that write every step's metrics,
progress and samples are on. The others log nothing.

All figures are medians over rounds, in each of which every trainer has a turn: of ratios and differences of
turns of the same round, as how fast a shared machine is changes by the second.

The libraries are in .venv-benchmarks, which packaging/benchmarks.sh makes; without it they have no rows.
"""

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.rows import Row
from support.system.free_port import free_port

HERE = Path(__file__).parent
PYTHON = HERE.parents[1] / ".venv-benchmarks" / "bin" / "python"
SHORT = "short steps"
TURNS = {"gpt": 200, "mlp": 400, SHORT: 600}
"""By workload: the shorter its steps are, the more others on the machine disturb each turn."""
WARM_UP = 10
ONE_ALLOCATOR = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TRIM_THRESHOLD_": str(2**31),
    "MALLOC_MMAP_THRESHOLD_": str(2**25),
}
"""For glibc: memory that one trainer gave back the next one takes, and none goes back to the system.
Otherwise each thread has an arena of its own, and some of them, which ones depends on the order in which they
were made, spend a millisecond a step on page faults."""
LIMIT = 500.0
"""Seconds; a loaded machine is slow, not broken."""
OURS = ("recipe", "DistributedTrainer")
LIBRARIES = ("accelerate", "lightning")
PEERS = {"hand-written": 0.98, **dict.fromkeys(LIBRARIES, 1.0)}
"""Peer → what our throughput should be of its."""


def run() -> list[Row]:
    """Steps a second of each of ours over those of each peer; of short steps, what each adds to a step."""
    rows = []
    for workload in TURNS:
        for world_size in (1, 2):
            seconds = _turns(workload, world_size)
            where = f"{workload}, {world_size} rank{'s'[: world_size - 1]}"
            compared = _fixed_costs if workload == SHORT else _throughputs
            rows += [row for name in OURS for row in compared(where, name, seconds)]
    return rows


def _throughputs(where: str, name: str, seconds: dict[str, list[float]]) -> list[Row]:
    ours, rows = seconds[name], []
    for peer, wanted in PEERS.items():
        theirs = seconds.get(peer)
        row = Row(
            f"{where}: {name}", 1 / statistics.median(ours), "steps/s", peer_name=f"{peer} is not installed"
        )
        if theirs is not None:
            row = dataclasses.replace(
                row,
                peer=1 / statistics.median(theirs),
                peer_name=peer,
                ratio=statistics.median(their / our for their, our in zip(theirs, ours, strict=True)),
                wanted=wanted,
            )
        rows.append(row)
    return rows


def _fixed_costs(where: str, name: str, seconds: dict[str, list[float]]) -> list[Row]:
    """What a step takes beyond one of the hand-written loop, ours and each library's."""
    plain = seconds["hand-written"]
    cost = {
        trainer: 1e6 * statistics.median(one - two for one, two in zip(found, plain, strict=True))
        for trainer, found in seconds.items()
    }
    step = 1e3 * statistics.median(plain)
    return [
        Row(
            name=f"{where} of {step:.1f} ms: {name}",
            ours=cost[name],
            unit="µs a step",
            peer=cost[peer],
            peer_name=peer,
            ratio=cost[name] / cost[peer],
            wanted=1.0,
            lower_is_better=True,
        )
        for peer in LIBRARIES
        if peer in cost
    ] or [Row(f"{where} of {step:.1f} ms: {name}", cost[name], "µs a step", peer_name="nothing is installed")]


def _turns(workload: str, world_size: int) -> dict[str, list[float]]:
    """Seconds a step of rank 0 by trainer, one number a turn, without the first ones, which allocate."""
    with tempfile.TemporaryDirectory() as folder:
        port = str(free_port())
        ranks = [
            subprocess.Popen(
                [
                    PYTHON if PYTHON.exists() else sys.executable,
                    str(HERE / "workers/trainers_worker.py"),
                    workload,
                    str(TURNS[workload]),
                    f"{folder}/{rank}",
                ],
                env={**_environment(rank, world_size, port), "BENCHMARK_RUNS": folder},
                stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                text=True,
            )
            for rank in range(world_size)
        ]
        try:
            errors = [rank.communicate(timeout=LIMIT)[1] for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
        if any(rank.returncode for rank in ranks):
            raise RuntimeError("\n".join(errors)[-4000:])
        found: dict[str, list[float]] = json.loads(Path(folder, "0").read_text())
    return {name: seconds[WARM_UP:] for name, seconds in found.items()}


def _environment(rank: int, world_size: int, port: str) -> dict[str, str]:
    root = HERE.parents[1]
    common = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root / "core"), str(root / "resources")]),
        "OMP_NUM_THREADS": "1",
        **ONE_ALLOCATOR,
        "CUDA_VISIBLE_DEVICES": "",
    }
    if world_size == 1:
        return common
    place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world_size)}
    return {
        **common,
        **place,
        "LOCAL_WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
