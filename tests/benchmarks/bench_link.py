"""Mirroring files over a local pipe; how late rows are. The other half of links is in `bench_following`."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.rows import Row
from support.links.linked import linked
from support.waiting import wait_until
from torchdeck.telemetry.writer import MetricsWriter

BYTES = 400_000_000
ROUNDS = 3
ROWS = 60


def run() -> list[Row]:
    """Rows for the goals of one link."""
    with tempfile.TemporaryDirectory() as folder:
        return [*_throughput(Path(folder)), *_seen(Path(folder))]


def _throughput(folder: Path) -> list[Row]:
    found, copies = [], []
    for turn in range(ROUNDS):
        with linked(folder / f"mirror{turn}") as linked_run:
            linked_run.make_node()
            log = linked_run.there.attempt(1).rank(0).stdout
            log.write_bytes(os.urandom(1_000_000) * (BYTES // 1_000_000))
            linked_run.bundle_there()
            begun = time.perf_counter()
            shutil.copyfile(log, folder / "copy")
            copies.append(BYTES / 1e6 / (time.perf_counter() - begun))
            linked_run.up()
            here = linked_run.here.attempt(1).rank(0).stdout
            begun = time.perf_counter()
            wait_until(partial(_is_whole, here), 120, "all of it", every=0.005)
            found.append(BYTES / 1e6 / (time.perf_counter() - begun))
    ours, copy = max(found), max(copies)
    name = f"mirror {BYTES // 1_000_000} MB over a local pipe"
    return [
        Row(name, ours, "MB/s", wanted=50.0, goal_is_absolute=True),
        Row(name, ours, "MB/s", copy, "copying the file", ours / copy),
    ]


def _seen(folder: Path) -> list[Row]:
    """Seconds from a row's writing on the node until it is in the controller's directory."""
    took = []
    with linked(folder / "seen") as linked_run:
        linked_run.make_node()
        linked_run.up()
        metrics = linked_run.there.attempt(1).rank(0).metrics
        writer = MetricsWriter(metrics, "trainer")
        for step in range(ROWS):
            writer.log({"loss": 1.0}, step=step)
            begun = time.perf_counter()
            (path,) = metrics.glob("*.metrics")
            size, other = path.stat().st_size, linked_run.here.root / path.relative_to(linked_run.there.root)
            wait_until(lambda: _size(other) >= size, 20, "a row", every=0.002)  # noqa: B023 - called at once
            took.append(time.perf_counter() - begun)
            time.sleep(step * 0.37 % 0.3)  # at any moment between two looks
    p95 = statistics.quantiles(took, n=20)[-1]
    return [Row("a row is seen here, p95", p95, "s", wanted=1.0, lower_is_better=True)]


def _is_whole(path: Path) -> bool:
    return _size(path) == BYTES


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
