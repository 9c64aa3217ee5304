"""Monitors nodes: what each does now, every second, until closed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from torchdeck.nodes.probe.monitoring import (
    INTERVAL,
    LeaseHolder,
    NodeMonitor,
    NodeNow,
    NodeState,
    Pace,
    Sample,
)
from torchdeck.nodes.ssh.credentials import NoAsker
from torchdeck.use_cases.nodes.chosen import ChosenNodes

__all__ = ["LeaseHolder", "Monitor", "NodeMonitor", "NodeNow", "NodeState", "Pace", "Sample", "monitor"]


class Monitor:
    """Running monitor of several nodes."""

    def __init__(self, monitors: Sequence[NodeMonitor]) -> None:
        self._monitors = monitors

    def now(self) -> dict[str, NodeNow]:
        """Return the last known state of every node."""
        return {each.name: each.now for each in self._monitors}

    def close(self, limit: float = 2.0) -> None:
        """Disconnect all nodes; nothing is left on them. Waits at most `limit` seconds."""
        for each in self._monitors:
            each.stop()
        until = time.monotonic() + limit
        for each in self._monitors:
            each.stop(max(0.0, until - time.monotonic()))


def monitor(chosen: ChosenNodes, on_news: Callable[[NodeNow], None], interval: float = INTERVAL) -> Monitor:
    """Start to monitor nodes; the caller closes the monitor.

    Args:
        chosen: the nodes; the user is asked at most once for each, when it is first connected to.
        on_news: called with every sample and change, in that node's thread.
        interval: seconds between two samples.
    """
    silent = replace(chosen.connector, asker=NoAsker())
    monitors = [
        NodeMonitor(name, entry, silent.connect, on_news, Pace(interval))
        for name, entry in chosen.entries.items()
    ]
    for each in monitors:
        each.retry(chosen.connector.connect)
        each.start()
    return Monitor(monitors)
