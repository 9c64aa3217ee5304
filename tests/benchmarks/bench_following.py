"""Following 64 nodes of 8 ranks in one process: what it takes of a core, over pipes and over SSH.

The nodes are processes of this machine, which has their load to carry, too: a figure counts only when they
got as far as they should in the same time, which stands in a row beside it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.rows import Row
from support.hosts.hosts import NoHostsError, TestHosts
from support.links.local_stream import LocalStream, python_stream
from support.waiting import wait_until
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.progress import read_progress
from torchdeck.launching.control.controller import TICK
from torchdeck.launching.remote.bootstrap import ByteStream
from torchdeck.launching.remote.dial import SshDial
from torchdeck.launching.remote.link import Dial, LinkFile, LinkTarget, NodeLink
from torchdeck.launching.run_files import RunFiles
from torchdeck.launching.runtime_bundle import ship
from torchdeck.nodes.inventory.schema import NodeEntry, NodeInventory
from torchdeck.nodes.ssh.credentials import Credentials, NoAsker
from torchdeck.nodes.ssh.target import target_for

NODES = 64
RANKS = 8
"""On each node."""
STEPS_PER_SECOND = 2.0
SETTLE = 5.0
"""Seconds after the last rank was seen: what each link does once is over."""
SECONDS = 20.0
UP_LIMIT = 300.0
"""Seconds for all links to be up: each node's Python is one of this machine."""
NODE_WORKER = Path(__file__).parent / "workers/following_nodes.py"
CORE = Path(__file__).resolve().parents[2] / "core"

DialOf = Callable[[int], Dial]
"""Node's number → how it is reached."""


def run() -> list[Row]:
    """Rows for the goal of a controller."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        rows = _followed(Path(folder), Path(folder) / "nodes", _over_pipes(stack), "pipes")
    try:
        with tempfile.TemporaryDirectory() as folder, TestHosts(1) as hosts:
            nodes = hosts.home(1) / "nodes"
            rows += _followed(Path(folder), nodes, _over_ssh(Path(folder), hosts), "SSH")
    except NoHostsError as error:
        print(f"without rows over SSH: {error}")
    return rows


def _followed(folder: Path, nodes: Path, dial_of: DialOf, way: str) -> list[Row]:
    """Processor time a second of the one process that follows all nodes, and how far the nodes got."""
    shipped = ship(folder / "home")
    here = RunLayout(folder / "home" / "runs" / "many")
    here.root.mkdir(parents=True)
    links = [_link(here, shipped, nodes / str(number), number, dial_of) for number in range(NODES)]
    try:
        for link in links:
            link.start()
        wait_until(lambda: all(link.state.state == "up" for link in links), UP_LIMIT, "64 links to be up")
        cores, rate = _measured(here, links, nodes)
    finally:
        for link in links:
            link.close()
    name = f"{NODES} nodes of {RANKS} ranks over {way}"
    return [
        Row(f"{name}: cores of who follows", cores, "", wanted=0.5, lower_is_better=True),
        Row(f"{name}: steps a second that came", rate, "", wanted=0.95 * STEPS_PER_SECOND),
    ]


def _measured(here: RunLayout, links: list[NodeLink], nodes: Path) -> tuple[float, float]:
    """Cores, and steps a second of the last rank, while a process writes for all nodes."""
    last = here.attempt(1).rank(NODES * RANKS - 1).progress
    argv = [sys.executable, str(NODE_WORKER), str(CORE), str(nodes), str(NODES), str(RANKS)]
    with subprocess.Popen([*argv, str(STEPS_PER_SECOND)]) as writer:
        try:
            wait_until(last.exists, 120, "the last rank to be seen")
            _control(here, links, SETTLE)
            used, begun, step = time.process_time(), time.monotonic(), _step(last)
            _control(here, links, SECONDS)
            took = time.monotonic() - begun
            return (time.process_time() - used) / took, (_step(last) - step) / took
        finally:
            writer.kill()


def _control(here: RunLayout, links: list[NodeLink], seconds: float) -> None:
    """What a controller does beside that: it reads all journals and tells of the links."""
    files, states = RunFiles(here, [link.node for link in links]), LinkFile(here, links)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        files.read()
        states.look()
        time.sleep(TICK)


def _step(path: Path) -> int:
    progress = read_progress(path)
    return 0 if progress is None else progress.step


def _link(here: RunLayout, shipped: Path, home: Path, number: int, dial_of: DialOf) -> NodeLink:
    home.mkdir(parents=True, mode=0o700)
    (home / "shipped").mkdir(mode=0o700)
    shutil.copytree(shipped, home / "shipped" / shipped.name)
    return NodeLink(LinkTarget(here, f"n{number}", str(home), shipped), dial_of(number))


def _over_pipes(stack: ExitStack) -> DialOf:
    def dial(_limit: float) -> ByteStream:
        stream: LocalStream = python_stream()
        stack.callback(stream.kill)
        return stream

    return lambda _number: dial


def _over_ssh(folder: Path, hosts: TestHosts) -> DialOf:
    """One host stands for all: a connection and a link server of its own for each node."""
    hosts.trust(folder)
    entry = NodeEntry.model_validate(hosts.entry(1))

    def dial_of(number: int) -> Dial:
        target = target_for(f"n{number}", entry, NodeInventory(), folder)
        return SshDial(target, Credentials(), NoAsker(), entry)

    return dial_of
