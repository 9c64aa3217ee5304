"""What the callbacks that are added inside a trainer cost, beside the same training without them.

Hugging Face Trainer, Lightning and a loop on Accelerate with steps that are all logged, and a loop on
PyTorch whose optimizer steps are counted, on one rank: the CPU time by which a step is longer, as a share of
a step of 10 ms. With and without take turns in one process; the median of their differences is compared.
Without the training programs (packaging/test.sh installs them) there are no rows.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.rows import Row
from support.system.trainers_python import trainers_python
from torchdeck.contract.layout import RunLayout
from torchdeck.trainers import inside

WORKERS = {
    "Hugging Face Trainer": "workers/inside_worker.py",
    "Lightning": "workers/inside_lightning_worker.py",
    "loop on Accelerate": "workers/inside_accelerate_worker.py",
    "loop on PyTorch": "workers/inside_loop_worker.py",
}
TURNS, STEPS, PACE = 24, 500, 0.01
FOLDER = Path(inside.__file__).parent
PATHS = (FOLDER.parents[2], FOLDER / "startup", Path(__file__).parents[1])
LIMIT = 300.0
"""Seconds."""


def run() -> list[Row]:
    """Seconds of a training with the callback over those of one without."""
    python = trainers_python()
    if python is None:
        print("the training programs are not installed", file=sys.stderr)
        return []
    return [
        _row(name, python, Path(__file__).parent / "workers" / worker) for name, worker in WORKERS.items()
    ]


def _row(program: str, python: str, worker: Path) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        turns = _turns(python, worker, Path(folder))
    added = statistics.median(with_callback - without for with_callback, without in turns) / STEPS
    ours, peer = 1000 * (PACE + added), 1000 * PACE
    name = f"{program}, {peer:.0f} ms per step"
    return Row(name, ours, "ms", peer, "without callbacks", ours / peer, 1.01, lower_is_better=True)


def _turns(python: str, worker: Path, folder: Path) -> list[tuple[float, float]]:
    rank = RunLayout(folder / "run").attempt(1).rank(0)
    rank.root.mkdir(parents=True)
    words = [python, str(worker), str(TURNS), str(STEPS)]
    ours = {"TORCHDECK_RUN_ID": "r", "TORCHDECK_RUN_DIR": str(folder / "run"), "TORCHDECK_ATTEMPT": "1"}
    done = subprocess.run(
        ["/bin/sh", "-c", 'echo $$ >"$0"; "$@"; exit $?', str(rank.holder), *words],
        cwd=folder,
        env={
            **os.environ,
            **ours,
            "RANK": "0",
            "WORLD_SIZE": "1",
            "LOCAL_RANK": "0",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "0",
            "PYTHONPATH": os.pathsep.join(map(str, PATHS)),
        },
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT,
        check=True,
    )
    line = next(line for line in done.stdout.splitlines() if line.startswith("SECONDS "))
    return [(ours, peer) for ours, peer in json.loads(line.removeprefix("SECONDS "))]
