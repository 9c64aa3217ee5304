"""A host behind a line of 1 Mbit/s and 200 ms: state comes first, then loss, then megabytes of logs."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import tomlkit

from support.hosts.hosts_run import HostsRun
from support.links.slow_link import SlowLink, through
from support.waiting import wait_until
from torchdeck.metrics.run_metrics import RunMetrics
from torchdeck.runs.follower import read_run

AcrossOf = Callable[..., HostsRun]
SPEED = 125_000
"""Bytes a second."""
DELAY = 0.1
"""Seconds, each way."""
STEPS = 100
FLOOD = 2 * SPEED
"""Bytes that a rank prints a second, which is twice what the line carries."""
LAG = 5.0
"""Seconds that state and loss may be late while that continues: a few turns of the line, on a busy
machine.
"""
SCRIPT = """
import os, sys, time, torchdeck
rank, steps, flood = int(os.environ["RANK"]), int(sys.argv[1]), int(sys.argv[2])
for step in range(1, steps + 1):
    begun = time.monotonic()
    torchdeck.log({"loss": 1.0 / step}, step=step)
    if rank == 1:
        for line in range(flood // 10 // 100):
            print(f"{step:05d} {line:05d}", os.urandom(44).hex())
    time.sleep(max(0.0, 0.1 - (time.monotonic() - begun)))
"""


class Lag(NamedTuple):
    """How late what is here is, while the second host's rank prints."""

    state: float
    """Seconds, of the newest heartbeat."""
    loss: float
    """Seconds, of the newest step of rank 1."""
    logs: int
    """Bytes of its output that are there and not here."""


@pytest.mark.soak
def test_state_and_loss_come_before_logs(across: AcrossOf, tmp_path: Path, torchdeck_home: Path) -> None:
    """Logs fall behind by hundreds of kilobytes, the rest by seconds; in the end nothing is missing."""
    hosts = across(2)
    made = hosts.made
    with SlowLink(made.address(2), 22, bytes_per_second=SPEED, delay=DELAY) as link:
        entry = {**through(link, made.entry, 2), "training_address": made.address(2)}
        node_inventory = {"version": 1, "nodes": {"node1": made.entry(1), "node2": entry}}
        (torchdeck_home / "nodes.toml").write_text(tomlkit.dumps(node_inventory))
        known = made.known_hosts + made.known_hosts.replace(made.address(2), f"[{link.address}]:{link.port}")
        (torchdeck_home / "known_hosts").write_text(known)
        with hosts.command.start("--no-gui", "--trust", write(tmp_path / "work")) as front:
            hosts.wait_begun(front)
            lags = measured(hosts)
            output, _ = front.communicate(timeout=180)
        assert front.returncode == 0, output
        hosts.wait_empty(120)  # logs continue coming after the end was told
        hosts.wait_controller_gone()
    hosts.assert_mirrored()
    metrics = RunMetrics(hosts.run.root)
    metrics.refresh()
    assert [int(step) for step in metrics.series("loss", 1).steps] == list(range(1, STEPS + 1))
    for name, values in zip(Lag._fields, zip(*lags, strict=True), strict=True):
        ordered = sorted(values)
        print(f"{name}: median {ordered[len(ordered) // 2]:.2f}, at most {ordered[-1]:.2f}")
    assert max(lag.state for lag in lags) < LAG
    assert max(lag.loss for lag in lags) < LAG
    assert max(lag.logs for lag in lags) > 3 * SPEED


def write(work: Path) -> Path:
    work.mkdir()
    (work / "printing.py").write_text(SCRIPT)
    config = {
        "run": {"script": "printing.py", "args": [str(STEPS), str(FLOOD)]},
        "distributed": {"nodes": ["node1", "node2"], "nproc": 1, "devices": "cpu"},
        "limits": {"min_free_disk": "1MiB"},
    }
    file = work / "run.toml"
    file.write_text(tomlkit.dumps(config))
    return file


def measured(hosts: HostsRun) -> list[Lag]:
    """Ten times a second from the first loss here until the rank over there has ended."""
    metrics, lags = RunMetrics(hosts.run.root), []
    there, here = (run.attempt(1).rank(1) for run in (hosts.on(2), hosts.run))
    wait_until(lambda: _newest(metrics), 120, "a loss of rank 1")
    while not there.exit.exists():
        now = time.time()
        arrived = here.stdout.stat().st_size if here.stdout.exists() else 0
        logs = there.stdout.stat().st_size - arrived
        lags.append(Lag(now - _beat(hosts), now - _newest(metrics), logs))
        assert read_run(hosts.run).state in ("RUNNING", "STARTING")
        time.sleep(0.1)
    wait_until(lambda: hosts.events(2, "rank_exited"), LAG, "the exit of rank 1")
    assert here.stdout.stat().st_size < there.stdout.stat().st_size, "its end was told before its last line"
    return lags


def _beat(hosts: HostsRun) -> float:
    """When the agent of the second host wrote its newest state that is here."""
    return float(json.loads(hosts.run.node("node2").heartbeat.read_text())["t"])


def _newest(metrics: RunMetrics) -> float:
    """When rank 1 wrote its newest loss that is here; 0.0 for none."""
    metrics.refresh()
    newest = metrics.latest("loss", 1) if 1 in metrics.ranks("loss") else None
    return 0.0 if newest is None else newest.time
