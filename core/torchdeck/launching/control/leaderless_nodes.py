"""Nodes that have given up their leader: what a controller forwards to them, and how long it follows them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.layout import RunLayout
from torchdeck.launching.epoch import ControllerEpoch
from torchdeck.launching.requests import STOP_NOW, read_requests
from torchdeck.launching.run_files import RunFiles
from torchdeck.launching.transport import LINGER, Transport
from torchdeck.runs.links import UP, Links
from torchdeck.runs.replay.history import RunHistory


class Nodes(Protocol):
    """The used part of the interface of `ConnectedNodes`."""

    transports: Sequence[Transport]

    def is_connected(self, node: str) -> bool:
        """Return whether a message to `node` would arrive now."""

    def lives(self, node: str, history: RunHistory) -> bool | None:
        """Return whether any process of the run is alive on `node`; None while unknown."""


class Journal(Protocol):
    """The used part of the interface of a journal's writer."""

    def append(self, name: str, /, **fields: Any) -> None:
        """Write an event."""


class LeaderlessNodes:
    """The nodes of one run that no longer hear from its leader."""

    def __init__(self, layout: RunLayout, nodes: Nodes, epoch: ControllerEpoch, journal: Journal) -> None:
        self._layout = layout
        self._nodes = nodes
        self._epoch = epoch
        self._journal = journal
        self._ended: float | None = None
        self._reached = 0.0
        self._handed: set[tuple[str, str]] = set()
        """Nodes, and ids of requests that they have."""
        self._deserted: set[str] = set()

    def forward(self, history: RunHistory) -> None:
        """Forward requests to them, which the leader cannot.

        While the leader is unreachable from here, the other nodes also receive `stop --now` and pass it on to
        the leader.
        """
        leader, *others = self._nodes.transports or (None,)
        leaderless, away = (
            history.nodes.leaderless,
            leader is not None and not self._nodes.is_connected(leader.node),
        )
        asked = read_requests(self._layout.control) if leaderless or away else []
        for transport in others:
            for request in asked:
                wants = transport.node in leaderless or (away and request.kind == STOP_NOW)
                if not wants or (transport.node, request.id) in self._handed:
                    continue
                with self._epoch.held(), contextlib.suppress(OSError):  # retried at the next poll
                    transport.deliver(request)
                    self._handed.add((transport.node, request.id))

    def go_on(self, history: RunHistory, now: float) -> bool:
        """Return whether, after the leader's end, a node's ranks continue without it and are or may become
        reachable.

        A node may also report this later: the leader may give a node up, and end, before the node gives up
        the leader.

        Args:
            history: contents of the run's journals.
            now: seconds of the monotonic clock.
        """
        self.forward(history)
        seen = history.nodes
        undecided = seen.followers - seen.departed - seen.leaderless.keys()
        alone = [node for node in history.nodes.go_on_alone if not self._is_deserted(node, history)]
        if any(map(self._nodes.is_connected, alone)):
            self._reached = now
        if self._ended is None:
            self._ended = self._reached = now
        if now - self._ended < LINGER and any(self._nodes.lives(node, history) for node in undecided):
            return True
        return bool(alone) and now - self._reached < LINGER

    def _is_deserted(self, node: str, history: RunHistory) -> bool:
        """Return whether no process is alive there that could report the end; if so, journal it here for
        later queries.
        """
        if node not in self._deserted and self._nodes.lives(node, history) is False:
            self._deserted.add(node)
            self._journal.append("deserted", node=node, lost=history.nodes.leader_lost[node])
        return node in self._deserted


# Detached nodes, whose ranks continue without their leader and after its end: launch.unattended =
# "continue".


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
