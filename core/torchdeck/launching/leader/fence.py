"""Ends agents of earlier sessions of a run: a returning agent learns that it was replaced."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from torchdeck.agent.inbox import REPLACED
from torchdeck.launching.epoch import ControllerEpoch
from torchdeck.launching.requests import STOP_NOW, Request
from torchdeck.launching.transport import Transport
from torchdeck.runs.replay.history import RunHistory


class Nodes(Protocol):
    """The used part of the interface of `ReachedNodes`."""

    transports: Sequence[Transport]

    def lives(self, node: str, history: RunHistory) -> bool | None:
        """Return whether any process of the run is alive on `node`; None while unknown."""


class Journal(Protocol):
    """The used part of the interface of a journal's writer."""

    def append(self, name: str, /, **fields: Any) -> None:
        """Write an event."""


class Fence:
    """The fence of one controller.

    The request names the session that it protects, and agents of that session ignore it. It may therefore
    arrive at any time, and late mirroring does no harm.
    """

    def __init__(self, nodes: Nodes, epoch: ControllerEpoch, journal: Journal) -> None:
        self._nodes = nodes
        self._epoch = epoch
        self._journal = journal
        self._handed: set[tuple[str, int]] = set()
        """Nodes, and the sessions that were protected there."""
        self._fenced: set[tuple[str, int]] = set()
        """The same, once nothing of earlier sessions lives there."""

    def look(self, history: RunHistory) -> None:
        """Notify live agents that belong to an earlier session, or to the one that was given up.

        Of nodes that did not answer when the run was given up, record those without a live process of the
        run.
        """
        session = history.life + history.is_given_up
        for transport in self._nodes.transports:
            if (history.agent_life(transport.node) or 0) < session:
                self._tell(transport, session, history, "given up" if history.is_given_up else "resumed")
        for node in history.unfenced:
            if (node, session) not in self._fenced and self._nodes.lives(node, history) is False:
                self._fenced.add((node, session))
                self._journal.append("fenced", node=node, life=session)

    def _tell(self, transport: Transport, session: int, history: RunHistory, what: str) -> None:
        node = transport.node
        if (node, session) in self._handed:
            return
        seen = transport.supervision(history.agents.get(node), history.holders.get(node))
        if seen is None or not seen.agent:
            return
        request = Request(
            f"{time.time_ns()}-replaced-{os.urandom(4).hex()}",
            STOP_NOW,
            REPLACED,
            f"the run was {what} while this node did not answer",
            session,
        )
        with self._epoch.held(), suppress(OSError):  # retried at the next poll
            transport.deliver(request)
            self._handed.add((node, session))
