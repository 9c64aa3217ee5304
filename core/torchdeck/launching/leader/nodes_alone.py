"""Nodes whose ranks go on without their leader, and after its end: launch.unattended = "continue"."""

from __future__ import annotations

from typing import NamedTuple

from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.layout import RunLayout
from torchdeck.launching.run_files import RunFiles
from torchdeck.runs.links import UP, Links


class Alone(NamedTuple):
    """What the links say of such nodes."""

    living: tuple[str, ...] = ()
    """Something of the run is alive there."""
    untold: tuple[str, ...] = ()
    """They are not reached, or have not said yet what is alive there."""


def nodes_alone(layout: RunLayout) -> tuple[str, ...]:
    """Nodes whose ranks go on without the leader, which may have ended; as far as it is told here.

    Raises:
        NewerFormatError: the run is from a newer Torchdeck.
    """
    names = sorted(path.name for path in layout.nodes.glob("*"))
    return RunFiles(layout, names).read().nodes.go_on_alone if names else ()


def seen_alone(nodes: tuple[str, ...], links: Links | None, now: float) -> Alone:
    """What is known of `nodes` at `now`, in unix seconds: one that was switched off has nothing left alive.

    This machine needs no link: what lives here is seen.
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
