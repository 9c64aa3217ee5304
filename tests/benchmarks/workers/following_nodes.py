"""Writes what agents and ranks of many nodes do: argv: core, folder, nodes, ranks, steps a second.

By the writers of real agents and ranks, as often as these write in a run of a recipe: at every step each
rank's progress, its row of metrics and its record of samples, and rank 0's line; once a second each agent's
heartbeat and machine series (with eight GPUs), and when rank 0 printed what.
"""

import itertools
import sys
import time
from pathlib import Path

from torchdeck.contract.run_states import GangPhase, RankPhase

sys.path.insert(0, sys.argv[1])

import numpy as np

from torchdeck.agent.gpus import SMI_FIELDS
from torchdeck.agent.heartbeat import Heartbeat
from torchdeck.agent.ranks.observation import LogTimes
from torchdeck.agent.ranks.rank_watch import RankState
from torchdeck.contract.journal import JournalWriter
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.progress import ProgressFile
from torchdeck.data.sample_log import SampleLogHeader, SampleLogWriter
from torchdeck.telemetry.writer import MetricsWriter

OWN = {"step_time": 0.25, "memory_bytes": 6.1e9, "memory_peak_bytes": 7.2e9}
OF_ALL = {
    "loss": 2.34,
    "lr": 3e-4,
    "tokens_per_s": 1e5,
    "samples_per_s": 64.0,
    "tokens": 1e9,
    "grad_norm": 1.1,
}
SAMPLES = np.arange(1000, 1008)
"""Ids of a rank's samples of a step."""
MACHINE = {
    "memory_total_bytes": 1e12,
    "memory_used_bytes": 1e11,
    "disk_free_bytes": 1e11,
    "cpu_percent": 50.0,
    "net_rx_bytes_per_s": 1e8,
    "net_tx_bytes_per_s": 1e8,
}


class Rank:
    """One rank, at its steps."""

    def __init__(self, layout: RunLayout, rank: int, world_size: int) -> None:
        files = layout.attempt(1).rank(rank)
        self._values = {**OWN, **OF_ALL} if rank == 0 else OWN
        self._writer = MetricsWriter(files.metrics, "trainer")
        self._progress = ProgressFile(files.progress)
        self._samples = SampleLogWriter(files.samples, SampleLogHeader(1_000_000, rank, world_size, {}))
        self._stdout = files.stdout.open("ab", buffering=0) if rank == 0 else None

    def step(self, step: int) -> None:
        """What it writes at a step."""
        self._progress.report("training", step, total=100_000, slow_step=0.6)
        self._samples.write(step, 0, 8192.0, [SAMPLES])
        self._writer.log(self._values, step=step)
        if self._stdout is not None:
            self._stdout.write(b"step %d/100000 loss 2.3411298751831055 lr 0.0003 tokens/s 123456\n" % step)


class Agent:
    """One node's agent, once a second."""

    def __init__(self, layout: RunLayout, node: int, ranks: range) -> None:
        files = layout.node(f"n{node}")
        files.root.mkdir(parents=True)
        self._ranks = ranks
        self._beat = Heartbeat(files.heartbeat)
        self._system = MetricsWriter(files.system, "system")
        self._journal = JournalWriter(files.journal)
        self._log = LogTimes(layout.attempt(1).rank(0)) if node == 0 else None
        gpus = {f"gpu{index}_{name}": 1.0 for index in range(len(ranks)) for _, name, _ in SMI_FIELDS}
        self._machine = {**MACHINE, **gpus, **{f"rank{rank}_rss_bytes": 1e10 for rank in ranks}}

    def beat(self, step: int) -> None:
        """What it writes once a second."""
        state = RankState(RankPhase.TRAINING, step, 100_000, time.time(), 0.1, 4711)
        self._beat.beat(
            attempt=1,
            phase=GangPhase.RUNNING,
            ranks=dict.fromkeys(self._ranks, state),
            torchrun=None,
            holder=None,
            disk_free=10**11,
            rss=dict.fromkeys(self._ranks, 10**10),
        )
        self._system.log(self._machine)
        if self._log is not None:
            self._log.note()

    def saved(self, step: int) -> None:
        """It has seen a checkpoint."""
        self._journal.append(
            "checkpoint", durable=False, step=step, path=f"checkpoints/step_{step}", bytes=10**10
        )


def main(folder: Path, nodes: int, ranks: int, rate: float) -> None:
    """Until it is killed."""
    layouts = [RunLayout(folder / str(node) / "runs" / "many") for node in range(nodes)]
    of_node = [range(node * ranks, (node + 1) * ranks) for node in range(nodes)]
    agents = [Agent(layout, node, of_node[node]) for node, layout in enumerate(layouts)]
    all_ranks = [
        Rank(layout, rank, nodes * ranks) for node, layout in enumerate(layouts) for rank in of_node[node]
    ]
    beat_due = due = time.monotonic()
    for step in itertools.count(1):
        for rank in all_ranks:
            rank.step(step)
        if time.monotonic() >= beat_due:
            beat_due += 1.0
            for agent in agents:
                agent.beat(step)
        if step % 20 == 0:
            for agent in agents:
                agent.saved(step)
        due += 1.0 / rate
        time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
