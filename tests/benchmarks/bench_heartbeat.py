"""Costs of the flight recorder, of a rank's heartbeat and of its reports on collectives.

Two ranks on gloo with three process groups and a full flight recorder measure the processor time of their
steps, next to few and to many Python threads. The recorder's part is what it adds to a small collective,
times the collectives of a step: with and without it in processes in turns, as it is chosen when a process
starts; the least of many blocks is compared. A heartbeat beside the steps measures its own processor time,
as a share of the time: it stops the program no longer than that. A report on arrivals is rare and long, so it
is timed on its own: the time to read the recorder counts, as that stops the program.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.rows import Row

WORKERS = Path(__file__).parent / "workers"
LIMIT = 300.0
"""Seconds of one process."""
THREADS = (2, 60)
PROCESSES = 3
"""Pairs of processes with and without recorder, for each number of threads."""
BLOCKS, BLOCK = 4, 6.0
"""Blocks of steps in a process, and the seconds of a block."""
IN_A_STEP = 3
"""Collectives of a step of the worker."""
GOAL = 1.005


def run() -> list[Row]:
    """Return processor time of steps with recorder and heartbeat over that without."""
    rows = [row for threads in THREADS for row in _steps(threads)]
    reports = float(_ranks("heartbeat_worker.py", []))
    return [*rows, Row("reports on arrivals at collectives", 100 * reports, "% of the time")]


def _steps(threads: int) -> list[Row]:
    steps, plains, recorded, shares = [], [], [], []
    for number in range(PROCESSES):
        modes = ("plain", "beats")[:: 1 if number % 2 else -1]
        found = {mode: _blocks(threads, mode) for mode in modes}
        steps += found["plain"]["steps"]
        plains.append(min(found["plain"]["collectives"]))
        recorded.append(min(found["beats"]["collectives"]))
        shares += found["beats"]["heartbeat"]
    print(f"{threads} threads, heartbeat: {_spread(shares)}", file=sys.stderr)
    for kind, costs in (("with", recorded), ("without", plains)):
        print(f"a collective {kind} recorder, us: {_spread([1e6 * cost for cost in costs])}", file=sys.stderr)
    recorder = 1 + IN_A_STEP * (min(recorded) - min(plains)) / min(steps)
    beat = 1 + statistics.median(shares)
    step, name = 1000 * min(steps), f"a step, {threads} threads:"
    return [
        _row(f"{name} recorder", step, "without", recorder),
        _row(f"{name} heartbeat", step, "without", beat),
        _row(f"{name} recorder and heartbeat", step, "without", recorder * beat),
    ]


def _blocks(threads: int, mode: str) -> dict[str, list[float]]:
    environ = {"TORCH_FR_BUFFER_SIZE": "0"} if mode == "plain" else {}
    found = _ranks("heartbeat_steps_worker.py", [str(threads), str(BLOCK), str(BLOCKS), mode], environ)
    return {str(kind): list(map(float, values)) for kind, values in found.items()}


def _ranks(worker: str, arguments: list[str], environ: Mapping[str, str] = MappingProxyType({})) -> Any:
    """Return what two ranks of a worker print."""
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    with tempfile.TemporaryDirectory() as folder:
        ours = {"TORCHDECK_RUN_ID": "r", "TORCHDECK_RUN_DIR": folder, "TORCHDECK_ATTEMPT": "1"}
        done = subprocess.run(
            [*words, str(WORKERS / worker), *arguments],
            env={**os.environ, "OMP_NUM_THREADS": "1", **ours, **environ},
            stdout=subprocess.PIPE,
            text=True,
            timeout=LIMIT,
            check=True,
        )
    line = next(line for line in done.stdout.splitlines() if line.startswith("SECONDS "))
    return json.loads(line.removeprefix("SECONDS "))


def _spread(ratios: list[float]) -> str:
    return " ".join(f"{ratio:.4f}" for ratio in sorted(ratios))


def _row(name: str, peer: float, peer_name: str, ratio: float) -> Row:
    return Row(name, peer * ratio, "ms", peer, peer_name, ratio, GOAL, lower_is_better=True)
