"""Largest resident set of a real rank in its training: what a CPU rank needs of its machine."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path

from support.memory.measured_training import settings_of, strategy_of, trainer_of
from support.ranks.measured_ranks import Job

_STATUS = Path("/proc/self/status")


def measure_resident(job: Job) -> int:
    """Train for the job's steps; return the largest resident set in bytes."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # proc(5): the peak begins again
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_of(job, Path(folder))
        strategy = strategy_of(settings)
        strategy.setup()
        assert trainer_of(job, settings, strategy).run()
    return _bytes("VmHWM")


def _bytes(name: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024
