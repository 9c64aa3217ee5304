"""Detached nodes, whose ranks continue without their leader and after its end: launch.unattended =
"continue".
"""

from __future__ import annotations

from typing import NamedTuple

from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.layout import RunLayout
from torchdeck.launching.run_files import RunFiles
from torchdeck.runs.links import UP, Links


class Alone(NamedTuple):
    """State of such nodes according to the links."""

    living: tuple[str, ...] = ()
    """Nodes with a live process of the run."""
    untold: tuple[str, ...] = ()
    """Nodes that are unreachable, or have not reported yet what is alive there."""


def nodes_alone(layout: RunLayout) -> tuple[str, ...]:
    """Return nodes whose ranks continue without the leader, which may have ended; as far as known here.

    Raises:
        NewerFormatError: the run is from a newer Torchdeck.
    """
    names = sorted(path.name for path in layout.nodes.glob("*"))
    return RunFiles(layout, names).read().nodes.go_on_alone if names else ()


def seen_alone(nodes: tuple[str, ...], links: Links | None, now: float) -> Alone:
    """Return the known state of `nodes` at `now`, in unix seconds: a node that was switched off has no live
    process.

    This machine needs no link: its processes are visible.
    """
    living, untold = [], []
    for node in nodes:
        if node == LOCALHOST:
            continue
        state = links.nodes.get(node) if links is not None and links.is_fresh(now) else None
        if state is None or state.state != UP or state.agent_alive is None:
            untold.append(node)
        elif state.agent_alive or state.holder_alive or state.torchrun_alive:
            living.append(node)
    return Alone(tuple(living), tuple(untold))
