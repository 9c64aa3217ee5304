"""A home in which every page of the window has something to show."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from support.values.checkpoint_files import save
from support.values.golden_values import QUEUE
from support.values.metrics import rank_folder, write_columns
from support.values.run_homes import add_failed_run, add_live_run, add_run
from torchdeck.contract.layout import RunLayout
from torchdeck.queue.queue_file import change_queue

ENDED, FAILED, LIVE = 1, 2, 3
"""Numbers of the runs."""
RANKS, STEPS = 4, 200
INVENTORY = '[nodes.away]\naddress = "127.0.0.1"\nport = 1\n'


def fill(home: Path) -> None:
    """Add a run that has ended, with metrics, logs and checkpoints, one that failed, and one that runs."""
    ended = add_run(home, ENDED)
    write_metrics(ended)
    for rank in range(2):
        stdout = ended.attempt(1).rank(rank).stdout
        stdout.parent.mkdir(parents=True, exist_ok=True)
        stdout.write_text("".join(f"step {step}\n" for step in range(50)))
    for step in (10, 20):
        save(ended.checkpoints, step, metrics={"validation_loss": 1.0})
    add_failed_run(home, FAILED)
    add_live_run(home, LIVE)
    (home / "nodes.toml").write_text(INVENTORY)
    change_queue(home, lambda _queue: QUEUE)


def write_metrics(run: RunLayout) -> None:
    steps = np.arange(STEPS)
    for rank in range(RANKS):
        took = np.random.default_rng(rank).normal(0.2, 0.005, STEPS)
        columns = {"step_time": took, "loss": 3.0 - steps / STEPS, "grad_norm": took + 1}
        write_columns(rank_folder(run.root, rank) / "log-1.metrics", columns, steps=steps, times=1e9 + steps)
