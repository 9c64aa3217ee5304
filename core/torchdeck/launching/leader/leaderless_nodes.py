"""Nodes that have given up their leader: what a controller hands them, and until when it follows them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Protocol

from torchdeck.contract.layout import RunLayout
from torchdeck.launching.epoch import ControllerEpoch
from torchdeck.launching.requests import STOP_NOW, read_requests
from torchdeck.launching.transport import LINGER, Transport
from torchdeck.runs.replay.history import RunHistory


class Nodes(Protocol):
    """What of `ReachedNodes` is used."""

    transports: Sequence[Transport]

    def reaches(self, node: str) -> bool:
        """Whether what is said to `node` now would arrive."""

    def lives(self, node: str, history: RunHistory) -> bool | None:
        """Whether anything of the run lives on `node`; None while nobody can say."""


class Journal(Protocol):
    """What of a journal's writer is used."""

    def append(self, name: str, /, **fields: Any) -> None:
        """Write an event."""


class LeaderlessNodes:
    """The nodes of one run that hear nothing from its leader any more."""

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
        """Hand them what was asked for, which the leader cannot.

        While the leader is not reached from here the others hear of `stop --now`, too: they tell it.
        """
        leader, *others = self._nodes.transports or (None,)
        leaderless, away = (
            history.nodes.leaderless,
            leader is not None and not self._nodes.reaches(leader.node),
        )
        asked = read_requests(self._layout.control) if leaderless or away else []
        for transport in others:
            for request in asked:
                wants = transport.node in leaderless or (away and request.kind == STOP_NOW)
                if not wants or (transport.node, request.id) in self._handed:
                    continue
                with self._epoch.held(), contextlib.suppress(OSError):  # tried again in the next look
                    transport.deliver(request)
                    self._handed.add((transport.node, request.id))

    def go_on(self, history: RunHistory, now: float) -> bool:
        """After the leader's end: whether a node's ranks go on without it, and are reached or may be again.

        Or may say so yet: the leader may give a node up, and end, before the node gives up the leader.

        Args:
            history: what the run's journals say.
            now: seconds of the monotonic clock.
        """
        self.forward(history)
        seen = history.nodes
        undecided = seen.followers - seen.departed - seen.leaderless.keys()
        alone = [node for node in history.nodes.go_on_alone if not self._is_deserted(node, history)]
        if any(map(self._nodes.reaches, alone)):
            self._reached = now
        if self._ended is None:
            self._ended = self._reached = now
        if now - self._ended < LINGER and any(self._nodes.lives(node, history) for node in undecided):
            return True
        return bool(alone) and now - self._reached < LINGER

    def _is_deserted(self, node: str, history: RunHistory) -> bool:
        """Nobody lives there who could tell of the end: it is written down here, for whoever asks later."""
        if node not in self._deserted and self._nodes.lives(node, history) is False:
            self._deserted.add(node)
            self._journal.append("deserted", node=node, lost=history.nodes.leader_lost[node])
        return node in self._deserted
