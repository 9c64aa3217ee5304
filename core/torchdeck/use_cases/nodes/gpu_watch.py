"""Watches the GPUs of nodes and of this machine, for front ends that have no event loop."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchdeck.contract.inventory import LOCALHOST
from torchdeck.nodes.gpus.gpu_now import GpuNow, NodeGpus, RunHold, gpus_of
from torchdeck.nodes.gpus.here import GpusHere
from torchdeck.use_cases.nodes.chosen import ChosenNodes
from torchdeck.use_cases.nodes.gpus import HeldRuns, gpus_of_node, without_twins
from torchdeck.use_cases.nodes.monitor import NodeNow, monitor

if TYPE_CHECKING:
    from torchdeck.use_cases.ui import Ui

FIRST_LIMIT = 20.0
"""Seconds for the first answer of every node, without the time that the user takes to log in."""


class GpuNodes(NamedTuple):
    """Machines whose GPUs are asked for."""

    chosen: ChosenNodes
    with_here: bool
    """Whether this machine is one of them."""


class GpusSeen(NamedTuple):
    """GPUs at one moment."""

    gpus: Sequence[GpuNow]
    """By node, in the requested order; this machine is the last one."""
    problems: Sequence[tuple[str, str]]
    """Nodes that are not connected, with the reason as a sentence."""


def choose_gpu_nodes(asked: Sequence[str], home: Path, ui: Ui) -> GpuNodes:
    """Return the machines that `asked` names: all nodes of the inventory and this machine if it is empty.

    Args:
        asked: names, groups, ranges and tags, and `localhost` for this machine.
        home: TORCHDECK_HOME.
        ui: gives the connector.

    Raises:
        ConfigError, NodeNamesError: the inventory is invalid, or there is no such node.
    """
    from torchdeck.nodes.inventory.names import named_nodes

    connector = ui.connector(home)
    inventory = connector.node_inventory()
    others = [name for name in asked if name != LOCALHOST or name in inventory.nodes]
    names = named_nodes(inventory, others) if others else [] if asked else list(inventory.nodes)
    with_here = not asked or len(others) < len(asked)
    return GpuNodes(ChosenNodes(connector, {name: inventory.nodes[name] for name in names}), with_here)


class GpuWatch:
    """Monitor of the GPUs of several machines. Use it from one thread; the caller closes it."""

    def __init__(self, nodes: GpuNodes, interval: float = 1.0) -> None:
        """Connect to the nodes; `interval` is in seconds."""
        home = nodes.chosen.connector.home
        self._news = threading.Event()
        self._runs = HeldRuns(home)
        self._here = GpusHere(home) if nodes.with_here else None
        self._monitor = monitor(nodes.chosen, lambda _now: self._news.set(), interval)

    def look(self) -> GpusSeen:
        """Return the GPUs as they are now."""
        nodes = list(self._monitor.now().values())
        problems = [(now.node, now.why) for now in nodes if now.is_lost]
        here: NodeGpus | None = None
        if self._here is not None:
            try:
                here = self._here.look()
            except (OSError, subprocess.SubprocessError) as error:
                problems.append((LOCALHOST, f"nvidia-smi failed: {error}"))
        known = self._runs.look(_gpus(nodes, here, {}))
        return GpusSeen(_gpus(nodes, here, known), problems)

    def first(self, limit: float = FIRST_LIMIT) -> GpusSeen:
        """Return the GPUs once every node has answered or failed; the rest is a problem after `limit`."""
        until = time.monotonic() + limit
        while (waiting := self._waiting()) and (left := until - time.monotonic()) > 0:
            self._news.wait(min(left, 0.5))
            self._news.clear()
        seen = self.look()
        late = [(name, f"node {name} did not answer within {limit:g} s") for name in waiting]
        return GpusSeen(seen.gpus, [*seen.problems, *late])

    def close(self) -> None:
        """Disconnect; nothing is left on the nodes."""
        self._monitor.close()

    def _waiting(self) -> list[str]:
        nodes = self._monitor.now().values()
        return [now.node for now in nodes if not now.is_lost and (now.sample is None or not now.is_up)]


def _gpus(nodes: Sequence[NodeNow], here: NodeGpus | None, runs: Mapping[str, RunHold]) -> list[GpuNow]:
    found = [gpu for now in nodes for gpu in gpus_of_node(now, runs)]
    return without_twins([*found, *(() if here is None else gpus_of(here, runs))])
