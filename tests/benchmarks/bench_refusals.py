"""Two real hosts: how soon what torchrun waits minutes for is said, and a failure ends everything.

The tests of both have bounds that a busy machine keeps; here are the figures.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import tomlkit

from benchmarks.rows import Row
from support.hosts.hosts import NoHostsError, TestHosts
from support.hosts.hosts_run import HostsRun
from support.waiting import wait_until

ROUNDS = 3
LIMIT = 300.0
"""Seconds for a turn; a loaded machine is slow, not broken."""
EPHEMERAL = "1024-65535"
FAILING = """\
import os, sys, time
from pathlib import Path
import torch, torch.distributed as dist

dist.init_process_group("gloo")
moment = Path(sys.argv[1])
dist.all_reduce(torch.ones(1))
if dist.get_rank() == 1:
    time.sleep(1)
    moment.write_text(repr(time.time()))
    raise ValueError("a rank on node2 has had enough")
dist.all_reduce(torch.ones(1))
"""


def run() -> list[Row]:
    """A row for each; none if no hosts can be made."""
    try:
        with tempfile.TemporaryDirectory() as name, TestHosts(2) as hosts:
            folder = Path(name)
            folder.chmod(0o755)
            (folder / "home").mkdir(mode=0o700)
            (folder / "fail.py").write_text(FAILING)
            ours = HostsRun(hosts, folder / "home")
            _ended(folder, ours)  # sends our part to the nodes, and warms the disk's cache
            return [
                _row(
                    "two hosts: a failure has ended everything",
                    10.0,
                    [_ended(folder, ours) for _ in range(ROUNDS)],
                ),
                _row("two hosts: a blocked port is refused", 15.0, _refused(folder, ours)),
            ]
    except NoHostsError as error:
        print(f"no hosts can be made here, so these are not measured: {error}", file=sys.stderr)
        return []


def _row(name: str, wanted: float, took: list[float]) -> Row:
    seconds = statistics.median(took)
    return Row(name, seconds, "s", wanted=wanted, lower_is_better=True, goal_is_absolute=True)


def _ended(folder: Path, ours: HostsRun) -> float:
    """Seconds from the failure of a rank until no rank and no torchrun lives on either host."""
    moment = folder / "moment"
    moment.unlink(missing_ok=True)
    with ours.command.start("--no-gui", _write(folder, moment)) as front:
        wait_until(moment.exists, LIMIT, "the failure")
        wait_until(lambda: not _training(ours), LIMIT, "the end of all ranks", every=0.02)
        ended = time.time()
        front.communicate(timeout=LIMIT)
    assert front.returncode == 1
    return ended - float(moment.read_text())


def _training(ours: HostsRun) -> bool:
    return any({"rank", "torchrun"} & set(ours.processes(host)) for host in (1, 2))


def _refused(folder: Path, ours: HostsRun) -> list[float]:
    """Seconds of the whole command, where no host can connect to the second one."""
    run_file, runs, took = _write(folder, folder / "moment"), len(ours.command.runs()), []
    ours.made.block_port(2, EPHEMERAL, sender=ours.made.address(1))
    for _ in range(ROUNDS):
        begun = time.monotonic()
        done = ours.command.run("--no-gui", run_file, timeout=LIMIT)
        took.append(time.monotonic() - begun)
        assert done.returncode == 3, done.stdout + done.stderr
        assert "node2" in done.stderr
        assert len(ours.command.runs()) == runs
    return took


def _write(folder: Path, moment: Path) -> Path:
    config = {
        "run": {"script": "fail.py", "args": [str(moment)]},
        "distributed": {"nodes": ["node1", "node2"], "nproc": 1, "devices": "cpu", "backend": "gloo"},
        "limits": {"min_free_disk": "1MiB"},
    }
    (folder / "run.toml").write_text(tomlkit.dumps(config))
    return folder / "run.toml"
