"""Gives a run up, durably, once its leading node is lost: what its controller sees, and what it writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.elastic import Elastic, Place
from torchdeck.launching.leader.lost_leader import Follower, LostLeader, Seen
from torchdeck.launching.requests import STOP_NOW, read_requests
from torchdeck.runs.replay.history import RunHistory
from torchdeck.runs.state import RunState


class Nodes(Protocol):
    """What of `ReachedNodes` is used."""

    def reaches(self, node: str) -> bool:
        """Whether what is said to `node` now would arrive."""

    def heard(self, node: str) -> float | None:
        """When `node` was heard last; None: never."""

    def lives(self, node: str, history: RunHistory) -> bool | None:
        """Whether anything of the run lives on `node`; None while it cannot be known."""

    def has_ranks(self, node: str) -> bool:
        """Whether ranks of the run are known to live on `node`."""


class LeaderWatch:
    """The leading node of one run, as its controller sees it."""

    def __init__(
        self,
        layout: RunLayout,
        nodes: Nodes,
        names: tuple[str, ...],
        elastic: Elastic,
        grace: float,
        now: float,
    ) -> None:
        """Begin at `now` (monotonic seconds).

        Args:
            layout: the run.
            nodes: how its nodes are reached.
            names: of all its nodes, the leader's first.
            elastic: which gangs its plan allows.
            grace: launch.node_grace.
            now: monotonic seconds.
        """
        self._layout, self._nodes = layout, nodes
        self._lead, *self._others = names
        self._elastic = elastic
        self._rule = LostLeader(self._lead, grace, now)

    def look(self, history: RunHistory, now: float) -> dict[str, Any] | None:
        """What to journal as `lost`; None while the run goes on."""
        followers = {node: self._follower(node, history) for node in self._others}
        reached = self._nodes.reaches(self._lead)
        heard = self._nodes.heard(self._lead)
        stop_now = not reached and self._is_stop_asked()
        why = self._rule.look(Seen(heard, reached, followers, stop_now, self._may_go_on(followers)), now)
        if not why:
            return None
        checkpoint = "" if history.checkpoint is None else history.checkpoint.path
        return {
            "state": RunState.LOST.value,
            "why": why,
            "resumable": bool(checkpoint),
            "checkpoint": checkpoint,
            "attempt": history.attempt,
            "life": history.life,
            "nodes": [self._lead, *(node for node, does in followers.items() if does is Follower.AWAY)],
        }

    def _follower(self, node: str, history: RunHistory) -> Follower:
        lives = self._nodes.lives(node, history) if self._nodes.reaches(node) else None
        if lives is None:
            return Follower.AWAY
        if node in history.nodes.go_on_alone and lives:
            return Follower.SERVES
        if node in history.nodes.gave_up_leader:
            return Follower.ENDS if self._nodes.has_ranks(node) else Follower.ENDED
        return Follower.SERVES if lives else Follower.EMPTY

    def _may_go_on(self, followers: Mapping[str, Follower]) -> bool:
        """Whether the leader and those who are away could be a gang without the others."""
        here = [Place(node, None) for node, does in followers.items() if does is not Follower.AWAY]
        return len(here) < len(followers) and self._elastic.without(here) is not None

    def _is_stop_asked(self) -> bool:
        return any(each.kind == STOP_NOW for each in read_requests(self._layout.control))
