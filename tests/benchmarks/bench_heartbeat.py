"""Costs of a rank's heartbeat and of its reports on collectives, next to the same training without them.

Two ranks on gloo with three process groups and a full flight recorder write heartbeats from a deep stack. All
CPU time of a heartbeat is counted as time by which the steps of one second are longer: the thread holds
Python's lock.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.rows import Row
from torchdeck.contract.doctor.rank_heartbeat import INTERVAL

WORKER = Path(__file__).with_name("heartbeat_worker.py")
LIMIT = 120.0
"""Seconds."""


def run() -> list[Row]:
    """Return seconds of steps with heartbeats over those without."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        ours = {"TORCHDECK_RUN_ID": "r", "TORCHDECK_RUN_DIR": folder, "TORCHDECK_ATTEMPT": "1"}
        done = subprocess.run(
            [*words, str(WORKER)],
            env={**os.environ, **ours, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
            timeout=LIMIT,
            check=True,
        )
    line = next(line for line in done.stdout.splitlines() if line.startswith("SECONDS "))
    beats, reports = map(float, json.loads(line.removeprefix("SECONDS ")))
    return [
        _row("one second of steps with a heartbeat", beats),
        _row("and with reports on arrivals at collectives", beats + reports),
    ]


def _row(name: str, added: float) -> Row:
    peer = 1000 * INTERVAL
    both = peer + 1000 * added
    return Row(name, both, "ms", peer, "without", both / peer, 1.005, lower_is_better=True)
