"""Two real hosts: from the command to the first step, beside ssh and torchrun by hand, and torchrunx; how
late what is written on a node is seen here; how long a look at 32 nodes takes.

Interleaved: in every round each has a turn, and ratios are of turns of the same round, as how fast a shared
machine is changes by the second. The hosts are namespaces of this machine (tests/support/hosts/hosts.sh), so
all that is started on both shares its cores. Without a right to make hosts there are no rows.

torchrunx is in .venv-benchmarks, which packaging/benchmarks.sh makes; without it it has no row.
"""

from __future__ import annotations

import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from benchmarks.rows import Row
from support.hosts.hosts import NoHostsError, TestHosts
from support.hosts.hosts_run import HostsRun
from support.system.free_port import free_port
from support.waiting import wait_until
from torchdeck.contract.layout import RunLayout
from torchdeck.metrics.run_metrics import RunMetrics
from torchdeck.nodes.inventory.schema import NodeEntry, NodeInventory
from torchdeck.nodes.probe.probing import probe_nodes
from torchdeck.nodes.ssh.connection import Connection, connect
from torchdeck.nodes.ssh.credentials import Credentials, NoAsker
from torchdeck.nodes.ssh.target import target_of

ROUNDS = 5
LIMIT = 300.0
"""Seconds for a turn; a loaded machine is slow, not broken."""
MANY = 32
LOOKS = 3
ROWS = 60
"""Of telemetry, four a second."""
HERE = Path(__file__).parent
BESIDE = HERE.parents[1] / ".venv-benchmarks" / "bin" / "python"
TORCHRUNX = HERE / "workers/nodes_torchrunx_worker.py"
STEP = """\
import sys, time
import torch, torch.distributed as dist

dist.init_process_group("gloo")
value = torch.ones(1)
dist.all_reduce(value)
assert value.item() == dist.get_world_size()
if dist.get_rank() == 0:
    with open(sys.argv[1], "w") as file:
        file.write(repr(time.time()))
dist.destroy_process_group()
"""
WRITE = """\
import sys, time
import torch.distributed as dist
import torchdeck

dist.init_process_group("gloo")
for step in range(int(sys.argv[1])):
    if dist.get_rank() == 0:
        torchdeck.log({"written": time.time()}, step=step)
    time.sleep(0.25)
dist.destroy_process_group()
"""


def run() -> list[Row]:
    """Rows for the goals of runs across hosts; none if no hosts can be made."""
    try:
        return [*_two_hosts(), *_many_hosts()]
    except NoHostsError as error:
        print(f"no hosts can be made here, so these are not measured: {error}", file=sys.stderr)
        return []


def _two_hosts() -> list[Row]:
    with tempfile.TemporaryDirectory() as name, TestHosts(2) as hosts:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "home").mkdir(mode=0o700)
        (folder / "step.py").write_text(STEP)
        (folder / "write.py").write_text(WRITE)
        ours = HostsRun(hosts, folder / "home")
        return [*_first_step(folder, hosts, ours), _telemetry(folder, ours)]


# from the command to the first step


def _first_step(folder: Path, hosts: TestHosts, ours: HostsRun) -> list[Row]:
    turns: dict[str, Callable[[Path], None]] = {
        "torchdeck": partial(_torchdeck, folder, ours),
        "ssh + torchrun": partial(_by_hand, folder, hosts),
    }
    if _has_torchrunx():
        turns["torchrunx"] = partial(_torchrunx, folder, hosts)
    seconds: dict[str, list[float]] = {name: [] for name in turns}
    for number in range(ROUNDS + 1):
        for name, turn in turns.items():
            took = _seconds(turn, folder / "moment")
            if number:  # the first one warms the disk's cache and sends our part to the nodes
                seconds[name].append(took)
    return [_compared(seconds, "ssh + torchrun", 1.3), _compared(seconds, "torchrunx", 1.0)]


def _compared(seconds: Mapping[str, list[float]], peer: str, wanted: float) -> Row:
    name, ours, theirs = "two hosts: command to first step", seconds["torchdeck"], seconds.get(peer)
    if theirs is None:
        return Row(name, statistics.median(ours), "s", peer_name=f"{peer} is not installed")
    return Row(
        name,
        statistics.median(ours),
        "s",
        statistics.median(theirs),
        peer,
        ratio=statistics.median(a / b for a, b in zip(ours, theirs, strict=True)),
        wanted=wanted,
        lower_is_better=True,
    )


def _seconds(turn: Callable[[Path], None], moment: Path) -> float:
    """From now until the first step of rank 0, which it notes; the clock is one for all hosts here."""
    moment.unlink(missing_ok=True)
    begun = time.time()
    turn(moment)
    return float(moment.read_text()) - begun


def _torchdeck(folder: Path, ours: HostsRun, moment: Path) -> None:
    options = ("--no-gui", "--script", folder / "step.py", "--nproc", "1")
    # all hosts share the cores of this machine: as many threads as by hand
    nodes = ("--set", 'distributed.nodes=["node1","node2"]', "--set", 'run.env.OMP_NUM_THREADS="1"')
    done = ours.command.run(*options, *nodes, "--", moment, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr


def _by_hand(folder: Path, hosts: TestHosts, moment: Path) -> None:
    """As a person does it: one ssh for each host, static rendezvous on the first."""
    known = folder / "known_hosts"
    known.write_text(hosts.known_hosts)
    port = free_port()
    sessions = [
        subprocess.Popen(
            _ssh(hosts, host, known, _torchrun(folder, hosts, host, port, moment)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for host in (1, 2)
    ]
    for session in sessions:
        output, _ = session.communicate(timeout=LIMIT)
        assert session.returncode == 0, output.decode(errors="replace")


def _torchrun(folder: Path, hosts: TestHosts, host: int, port: int, moment: Path) -> str:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
    torchrun += ["--node-rank", str(host - 1), "--master-addr", hosts.address(1), "--master-port", str(port)]
    words = ["env", "OMP_NUM_THREADS=1", f"GLOO_SOCKET_IFNAME={hosts.interface(host)}", *torchrun]
    return shlex.join([*words, str(folder / "step.py"), str(moment)])


def _ssh(hosts: TestHosts, host: int, known: Path, line: str) -> list[str]:
    options = {
        "UserKnownHostsFile": known,
        "IdentityFile": hosts.key,
        "IdentitiesOnly": "yes",
        "BatchMode": "yes",
    }
    return [
        *("ssh", "-F", "none"),
        *(word for name, value in options.items() for word in ("-o", f"{name}={value}")),
        *(f"root@{hosts.address(host)}", line),
    ]


def _has_torchrunx() -> bool:
    if not BESIDE.exists():
        return False
    return (
        subprocess.run([BESIDE, "-c", "import torchrunx"], capture_output=True, check=False).returncode == 0
    )


def _torchrunx(folder: Path, hosts: TestHosts, moment: Path) -> None:
    config = folder / "ssh_config"
    config.write_text(f"Host *\n  User root\n  IdentityFile {hosts.key}\n")
    told = {
        "hosts": [hosts.address(host) for host in (1, 2)],
        "here": hosts.here,
        "ssh_config": str(config),
        "interface": hosts.interface(1),
        "moment": str(moment),
    }
    done = subprocess.run(
        [BESIDE, TORCHRUNX, json.dumps(told)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=folder,  # it leaves logs there
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


# telemetry


def _telemetry(folder: Path, ours: HostsRun) -> Row:
    """From a row's writing on the node until a reader of the run's directory here has it."""
    options = ("--no-gui", "--script", folder / "write.py", "--nproc", "1")
    nodes = ("--set", 'distributed.nodes=["node1","node2"]')
    before = len(ours.command.runs())
    with ours.command.start(*options, *nodes, "--", str(ROWS)):
        wait_until(lambda: len(ours.command.runs()) > before, LIMIT, "the run")
        took = _lateness(ours.run)
    p95 = statistics.quantiles(took, n=20)[-1]
    return Row(
        "two hosts: a row is seen here, p95",
        p95,
        "s",
        wanted=1.0,
        lower_is_better=True,
        goal_is_absolute=True,
    )


def _lateness(run: RunLayout) -> list[float]:
    metrics = RunMetrics(run.root)
    took: list[float] = []

    def whole() -> bool:
        metrics.refresh()
        if "written" not in metrics.names():
            return False
        values = metrics.series("written", 0, effective=True).values
        took.extend(time.time() - float(written) for written in values[len(took) :])
        return len(took) >= ROWS

    wait_until(whole, LIMIT, "all rows", every=0.02)
    return took


# many hosts


def _many_hosts() -> list[Row]:
    with tempfile.TemporaryDirectory() as name, TestHosts(MANY) as hosts:
        home = Path(name) / "home"
        hosts.trust(home)
        entries = {f"n{i}": NodeEntry.model_validate(hosts.entry(i)) for i in range(1, MANY + 1)}
        node_inventory = NodeInventory(nodes=entries)
        took = []
        for _ in range(LOOKS):
            credentials = Credentials()

            def dial(node: str, limit: float, credentials: Credentials = credentials) -> Connection:
                return connect(target_of(node, node_inventory, home), credentials, NoAsker(), limit)

            begun = time.monotonic()
            found = list(probe_nodes(entries, dial))
            took.append(time.monotonic() - begun)
            assert not [each.error for each in found if each.error]
    return [
        Row(
            f"a quick look at {MANY} hosts",
            statistics.median(took),
            "s",
            wanted=3.0,
            lower_is_better=True,
            goal_is_absolute=True,
        )
    ]
