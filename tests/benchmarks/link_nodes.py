"""Writes what agents and ranks of many nodes do: argv: core, folder, nodes, ranks, steps a second."""

import itertools
import sys
import time
from pathlib import Path

sys.path.insert(0, sys.argv[1])

from torchdeck.rundir.atomic import write_json
from torchdeck.rundir.journal import JournalWriter
from torchdeck.rundir.layout import RunLayout
from torchdeck.telemetry.progress import ProgressFile
from torchdeck.telemetry.writer import MetricsWriter

VALUES = {"loss": 2.34, "lr": 3e-4, "grad_norm": 1.1, "tokens_per_s": 123456.0, "step_time": 0.25}
MACHINE = {"cpu_percent": 50.0, "memory_used_bytes": 1e9, "disk_free_bytes": 1e11}


def main(folder: Path, nodes: int, ranks: int, rate: float) -> None:
    """Until it is killed."""
    layouts = [RunLayout(folder / str(node) / "runs" / "many") for node in range(nodes)]
    for node, layout in enumerate(layouts):
        layout.node(f"n{node}").root.mkdir(parents=True)
    places = [(layout, node * ranks + rank) for node, layout in enumerate(layouts) for rank in range(ranks)]
    writers = [MetricsWriter(layout.attempt(1).rank(rank).metrics, "trainer") for layout, rank in places]
    progress = [ProgressFile(layout.attempt(1).rank(rank).progress) for layout, rank in places]
    systems = [MetricsWriter(layout.node(f"n{node}").system, "system") for node, layout in enumerate(layouts)]
    journals = [JournalWriter(layout.node(f"n{node}").journal) for node, layout in enumerate(layouts)]
    beat_due = due = time.monotonic()
    for step in itertools.count(1):
        for writer, how_far in zip(writers, progress, strict=True):
            writer.log(VALUES, step=step)
            how_far.report("training", step)
        if time.monotonic() >= beat_due:
            beat_due += 1.0
            for node, layout in enumerate(layouts):
                value = {"t": time.time(), "ranks": {str(rank): {"step": step} for rank in range(ranks)}}
                write_json(layout.node(f"n{node}").heartbeat, value, durable=False)
                systems[node].log(MACHINE)
        if step % 20 == 0:
            for journal in journals:
                journal.append("checkpoint", durable=False, step=step)
        due += 1.0 / rate
        time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
