"""Finds GPUs that nothing uses, on this machine and on the nodes of the inventory."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from torchdeck.config.values.gpu_models import gpu_model
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.nodes.free_gpus import FreeGpu, FreeNode, is_unused
from torchdeck.use_cases.nodes.chosen import ChosenNodes

if TYPE_CHECKING:
    from torchdeck.nodes.connector import Connector
    from torchdeck.nodes.probe.monitoring import NodeNow

LIMIT = 15.0
"""Seconds to wait for nodes that do not answer."""
_STEP = 0.2
"""Seconds between two looks for a cancellation."""


class FoundGpus(NamedTuple):
    """Free GPUs by node, and nodes that could not be asked."""

    nodes: tuple[FreeNode, ...]
    problems: tuple[str, ...]
    time: float
    """Seconds since 1970 at which they were free."""


def find_free_gpus(
    connector: Connector, is_cancelled: Callable[[], bool] = lambda: False, limit: float = LIMIT
) -> FoundGpus:
    """Ask this machine and all nodes of the inventory at once; takes at most `limit` seconds.

    Args:
        connector: connects to the nodes.
        is_cancelled: whether to end the search early.
        limit: timeout in seconds.

    Raises:
        ConfigError: the inventory is invalid.
    """
    entries = connector.node_inventory().nodes
    known = _ask(ChosenNodes(connector, entries), is_cancelled, limit) if entries else {}
    nodes = [_here(connector)]
    problems = []
    for name in entries:
        now = known.get(name)
        if now is None or now.facts is None:
            problems.append(f"{name}: {now.why or 'no answer yet' if now is not None else 'no answer yet'}")
        else:
            nodes.append(FreeNode(name, free_gpus_of(now, entries[name].devices)))
    return FoundGpus(tuple(node for node in nodes if node.gpus), tuple(problems), time.time())


def _ask(chosen: ChosenNodes, is_cancelled: Callable[[], bool], limit: float) -> dict[str, NodeNow]:
    from torchdeck.use_cases.nodes.monitor import monitor

    news = threading.Event()
    running = monitor(chosen, lambda _now: news.set())
    until = time.monotonic() + limit
    try:
        while time.monotonic() < until and not is_cancelled():
            if all(_is_known(now) for now in running.now().values()):
                break
            news.wait(_STEP)
            news.clear()
        return running.now()
    finally:
        running.close(0.0)


def _is_known(now: NodeNow) -> bool:
    """Return whether a node has told which GPUs are leased, or cannot."""
    return now.is_lost or (now.facts is not None and (now.sample is not None or not now.facts.gpu.devices))


def free_gpus_of(now: NodeNow, allowed: list[int] | None) -> tuple[FreeGpu, ...]:
    """Return the GPUs of a node that nothing uses.

    Args:
        now: last known state of the node; without a sample its leases are unknown, and no GPU counts as free.
        allowed: indices that the inventory lets runs use; None: all.
    """
    if now.sample is None or now.facts is None:
        return ()
    owners, devices = now.sample.owners, now.facts.gpu.devices
    return tuple(
        FreeGpu(gpu.index, _model(gpu.name))
        for gpu in devices
        if (allowed is None or gpu.index in allowed)
        and is_unused(
            gpu.memory,
            gpu.free,
            has_users=bool(gpu.users),
            is_leased=bool({gpu.uuid, str(gpu.index)} & set(owners)),
        )
    )


def _here(connector: Connector) -> FreeNode:
    from torchdeck.agent.leases import lease_holder
    from torchdeck.contract.layout import Home
    from torchdeck.nodes.this_machine import probe_gpus

    leases, used = Home(connector.home).leases, _used_here()
    free = [
        FreeGpu(device.index, _model(device.name))
        for device in probe_gpus()
        if is_unused(
            device.memory_bytes,
            device.free_bytes,
            has_users=used is None or device.uuid in used,
            is_leased=lease_holder(leases, device.key) is not None,
        )
    ]
    return FreeNode(LOCALHOST, tuple(free))


def _used_here() -> set[str] | None:
    """Return the uuids of this machine's GPUs that processes use; None if that cannot be asked."""
    from torchdeck.agent.gpus import gpu_user_lister

    lister = gpu_user_lister()
    try:
        return None if lister is None else {str(user["uuid"]) for user in lister()}
    except (OSError, subprocess.SubprocessError):
        return None


def _model(name: str) -> str:
    """Return the short name of a known GPU, else the driver's."""
    known = gpu_model(name)
    return known.name if known is not None else name
