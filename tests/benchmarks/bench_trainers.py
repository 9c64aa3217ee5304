"""Our trainer beside a hand-written torch loop, Hugging Face Accelerate and Lightning, on one rank and two.

The libraries are in .venv-benchmarks, which packaging/benchmarks.sh makes; without it they have no rows.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.rows import Row
from support.free_port import free_port

HERE = Path(__file__).parent
PYTHON = HERE.parents[1] / ".venv-benchmarks" / "bin" / "python"
TURNS = {"gpt": 40, "mlp": 120}
"""By workload: the shorter its steps are, the more others on the machine disturb each turn."""
WARM_UP = 4
LIMIT = 500.0
"""Seconds; a loaded machine is slow, not broken."""
OURS = ("recipe", "DistributedTrainer")
PEERS = {"hand-written": 0.98, "accelerate": 1.0, "lightning": 1.0}
"""Peer → what our throughput should be of its."""


def run() -> list[Row]:
    """Steps a second of each of ours over those of each peer, by the medians of turns."""
    return [
        row
        for workload in TURNS
        for world_size in (1, 2)
        for row in _rows(
            f"{workload}, {world_size} rank{'s'[: world_size - 1]}", _turns(workload, world_size)
        )
    ]


def _rows(where: str, seconds: dict[str, list[float]]) -> list[Row]:
    rows = []
    for name in OURS:
        ours = statistics.median(seconds[name])
        for peer, wanted in PEERS.items():
            if peer not in seconds:
                rows.append(
                    Row(f"{where}: {name}", 1 / ours, "steps/s", peer_name=f"{peer} is not installed")
                )
                continue
            theirs = statistics.median(seconds[peer])
            rows.append(
                Row(
                    name=f"{where}: {name}",
                    ours=1 / ours,
                    unit="steps/s",
                    peer=1 / theirs,
                    peer_name=peer,
                    ratio=theirs / ours,
                    wanted=wanted,
                )
            )
    return rows


def _turns(workload: str, world_size: int) -> dict[str, list[float]]:
    """Seconds a step of rank 0 by trainer, one number a turn, without the first ones, which allocate."""
    with tempfile.TemporaryDirectory() as folder:
        port = str(free_port())
        ranks = [
            subprocess.Popen(
                [
                    PYTHON if PYTHON.exists() else sys.executable,
                    str(HERE / "trainers_worker.py"),
                    workload,
                    str(TURNS[workload]),
                    f"{folder}/{rank}",
                ],
                env=_environment(rank, world_size, port),
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
