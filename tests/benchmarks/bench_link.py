"""Mirroring files over a local pipe; how late rows are; following 64 nodes of 8 ranks in one process."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.rows import Row
from support.linked import linked
from support.local_stream import LocalStream, python_stream
from support.waiting import wait_until
from torchdeck.launch.remote.link import LinkTarget, NodeLink
from torchdeck.launch.remote.stream import ByteStream
from torchdeck.launch.shipping import ship
from torchdeck.rundir.layout import RunLayout
from torchdeck.telemetry.writer import MetricsWriter

BYTES = 400_000_000
ROUNDS = 3
ROWS = 60
NODES = 64
RANKS = 8
"""On each node."""
STEPS_PER_SECOND = 2.0
SECONDS = 15.0
NODE_WORKER = Path(__file__).with_name("link_nodes.py")
CORE = Path(__file__).resolve().parents[2] / "core"


def run() -> list[Row]:
    """Rows for the goals of links."""
    with tempfile.TemporaryDirectory() as folder:
        return [*_throughput(Path(folder)), *_seen(Path(folder)), *_followed(Path(folder))]


def _throughput(folder: Path) -> list[Row]:
    found, copies = [], []
    for turn in range(ROUNDS):
        with linked(folder / f"mirror{turn}") as linked_run:
            linked_run.make_node()
            log = linked_run.there.attempt(1).rank(0).stdout
            log.write_bytes(os.urandom(1_000_000) * (BYTES // 1_000_000))
            linked_run.shipped_there()
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
            (path,) = metrics.iterdir()
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


def _followed(folder: Path) -> list[Row]:
    """Processor time a second of the one process that follows all nodes."""
    home = folder / "home"
    shipped = ship(home)
    here = RunLayout(home / "runs" / "many")
    here.root.mkdir(parents=True)
    nodes = folder / "nodes"
    with ExitStack() as stack:
        links = [_node_link(stack, nodes, here, shipped, number) for number in range(NODES)]
        for link in links:
            link.start()
        wait_until(lambda: all(link.state.state == "up" for link in links), 300, "64 links to be up")
        argv = [sys.executable, str(NODE_WORKER), str(CORE), str(nodes), str(NODES), str(RANKS)]
        with subprocess.Popen([*argv, str(STEPS_PER_SECOND)]) as writer:
            try:
                first = here.attempt(1).rank(NODES * RANKS - 1).progress
                wait_until(first.exists, 120, "the last rank to be seen")
                used, begun = time.process_time(), time.monotonic()
                time.sleep(SECONDS)
                cores = (time.process_time() - used) / (time.monotonic() - begun)
            finally:
                writer.kill()
    name = f"{NODES} nodes of {RANKS} ranks at {STEPS_PER_SECOND:g} steps/s: cores of who follows"
    return [Row(name, cores, "", wanted=0.5, lower_is_better=True)]


def _node_link(stack: ExitStack, nodes: Path, here: RunLayout, shipped: Path, number: int) -> NodeLink:
    home = nodes / str(number)
    (home / "shipped").mkdir(parents=True, mode=0o700)
    home.chmod(0o700)
    # one folder for all: what is looked at is the following
    shutil.copytree(shipped, home / "shipped" / shipped.name)
    streams: list[LocalStream] = []

    def dial(_limit: float) -> ByteStream:
        streams.append(python_stream())
        stack.callback(streams[-1].kill)
        return streams[-1]

    link = NodeLink(LinkTarget(here, f"n{number}", str(home), shipped), dial)
    stack.callback(link.close)
    return link
