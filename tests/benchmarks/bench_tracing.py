"""What it costs to trace a large model without its memory, and to find the profile again."""

import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.rows import Row
from torchdeck.config.loader import config_from_dict
from torchdeck.config.schema import RunConfig
from torchdeck.launching.facts.profiling import profile_model, wanted_traces
from torchdeck.tracing.request import WantedTrace

REPEATS = 3
MEMORY = 1.0
"""GiB that the process may take."""
HIT = 20.0
"""Milliseconds that a profile found in the cache may take."""
SEVEN_BILLION = {"layers": 32, "heads": 32, "width": 4096, "context": 2048}


def run() -> list[Row]:
    """A byte-gpt of 6.5 billion parameters in bf16, traced once and as often as predictions want it; beside
    the bare import of torch, which any process that looks at a model pays."""
    config = config_from_dict(
        {
            "run": {"recipe": "byte-gpt"},
            "model": SEVEN_BILLION,
            "training": {"steps": 1, "microbatch": 4, "precision": "bf16"},
        },
        Path.cwd(),
    )
    wanted = wanted_traces(config)
    bare = _seconds(lambda: subprocess.run([sys.executable, "-c", "import torch"], check=True))
    rows = [_traced(config, wanted[:count], bare) for count in (1, len(wanted))]
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    return [
        *rows,
        Row("memory of the process", peak, "GiB", wanted=MEMORY, lower_is_better=True, goal_is_absolute=True),
        _found(config, wanted),
    ]


def _traced(config: RunConfig, wanted: Sequence[WantedTrace], bare: float) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        profile_model(config, home, wanted=wanted)  # ships the code, and brings it into the page cache

        def trace() -> None:
            shutil.rmtree(home / "profiles")
            profile_model(config, home, wanted=wanted)

        seconds = _seconds(trace)
    name = f"6.5B parameters, {len(wanted)} trace{'s' if len(wanted) > 1 else ''}"
    return Row(name, seconds, "s", bare, "import torch", seconds / bare)


def _found(config: RunConfig, wanted: Sequence[WantedTrace]) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        profile_model(config, Path(folder), wanted=wanted)
        hit = 1000 * _seconds(lambda: profile_model(config, Path(folder), wanted=wanted))
    return Row(
        f"{len(wanted)} traces found in the cache", hit, "ms", wanted=HIT, lower_is_better=True,
        goal_is_absolute=True,
    )  # fmt: skip


def _seconds(act: Callable[[], object]) -> float:
    """Median of some repeats."""
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        act()
        times.append(time.perf_counter() - began)
    return statistics.median(times)
