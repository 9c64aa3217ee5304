"""Ends agents of lives of a run that are over: one that comes back finds that it was replaced."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress

from torchdeck.agent.inbox import REPLACED
from torchdeck.launching.control.epoch import ControllerEpoch
from torchdeck.launching.control.requests import STOP_NOW, Request
from torchdeck.launching.control.transport import Transport
from torchdeck.runs.replay.history import RunHistory


class Fence:
    """Of one controller.

    The request names the life that it protects, and agents of that life pass it over: so it may come at any
    time, and what is mirrored late does no harm.
    """

    def __init__(self, transports: Sequence[Transport], epoch: ControllerEpoch) -> None:
        self._transports = transports
        self._epoch = epoch
        self._handed: set[tuple[str, int]] = set()
        """Nodes, and the lives that were protected there."""

    def look(self, history: RunHistory) -> None:
        """Tell agents that live and belong to an earlier life, or to the one that is over."""
        over = history.end is not None
        life = history.life + over
        for transport in self._transports:
            node = transport.node
            if (node, life) in self._handed or (history.agent_life(node) or 0) >= life:
                continue
            seen = transport.supervision(history.agents.get(node), history.holders.get(node))
            if seen is None or not seen.agent:
                continue
            why = "the run was given up" if over else "the run was resumed"
            request = Request(
                f"{time.time_ns()}-replaced-{os.urandom(4).hex()}",
                STOP_NOW,
                REPLACED,
                f"{why} while this node did not answer",
                life,
            )
            with self._epoch.held(), suppress(OSError):  # tried again at the next look
                transport.deliver(request)
                self._handed.add((node, life))
