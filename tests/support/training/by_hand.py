"""Trainings as a person starts them, without Torchdeck."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.waiting import wait_until
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.follower import read_run
from torchdeck.runs.training_progress import ProgressReader, TrainingProgress

PLAIN = """
    import csv, sys, time
    from pathlib import Path
    import torch

    steps = int(sys.argv[sys.argv.index("--max_steps") + 1])
    Path("out").mkdir(exist_ok=True)
    with open("out/metrics.csv", "w") as file:
        table = csv.writer(file)
        table.writerow(["step", "train_loss", "val_loss"])
        for step in range(1, steps + 1):
            time.sleep(0.05)
            table.writerow([step, 3 / step, 4 / step])
            file.flush()
            print(f"step {step} loss {3 / step:.4f}", flush=True)
            if step % 20 == 0:
                torch.save({"weight": torch.zeros(64, 256)}, f"out/model_step{step}.pt")
"""


@contextmanager
def by_hand(folder: Path, program: str, *arguments: str, python: str = sys.executable) -> Iterator[int]:
    """A training as a person starts it, its output in a file; the pid."""
    folder.mkdir()
    (folder / "train.py").write_text(textwrap.dedent(program))
    with (folder / "train.log").open("wb") as log:
        process = subprocess.Popen(
            [python, "train.py", *arguments], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait(10)


def progress_of(layout: RunLayout) -> TrainingProgress | None:
    return ProgressReader(layout).read(read_run(layout))


def reached(layout: RunLayout, step: int, *, with_total: bool = False) -> TrainingProgress:
    """Wait until the run shows a step, and the total if that is known."""

    def found() -> TrainingProgress | None:
        progress = progress_of(layout)
        if progress is None or (progress.step or 0) < step or (with_total and not progress.total):
            return None
        return progress

    known = wait_until(found, 120, f"step {step}")
    assert known is not None
    return known
