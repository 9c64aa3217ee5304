"""Nodes that did not answer when a controller gave a run up, until they have."""

from __future__ import annotations

from collections.abc import Mapping

from torchdeck.contract.journal import Event
from torchdeck.runs.replay import fields as read


class LostNodes:
    """Lost nodes according to the controller's journal. Sessions of a run are numbered as in `lost`."""

    def __init__(self) -> None:
        self._lost: dict[str, int] = {}
        """Node → the last session that was given up while the node did not answer."""
        self._fenced: dict[str, int] = {}
        """Node → the session before which all agents there have ended."""

    def given_up(self, event: Event) -> None:
        """Record that a controller ended a session."""
        session = read.whole(event.fields, "life") or 0
        for node in read.texts(event.fields, "nodes"):
            self._lost[node] = max(session, self._lost.get(node, 0))

    def fenced(self, event: Event) -> None:
        """Record that a node has answered: nothing of earlier sessions is alive there."""
        node = read.text(event.fields, "node")
        self._fenced[node] = max(read.whole(event.fields, "life") or 0, self._fenced.get(node, 0))

    def unfenced(self, agents: Mapping[str, int]) -> tuple[str, ...]:
        """Return nodes on which an agent of a lost session may be alive; `agents`: node → session of its last
        agent.

        There is one agent per node: one of a later session has replaced it.
        """
        return tuple(
            node
            for node, session in self._lost.items()
            if self._fenced.get(node, 0) <= session and agents.get(node, 0) <= session
        )
