"""Gives a run up durably once its leader node is lost: the controller's observations and journal entries."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple, Protocol

from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.elastic import Elastic, Place
from torchdeck.contract.plan.policy import Policy
from torchdeck.launching.requests import is_stop_now_asked
from torchdeck.runs.outcome import unheard_end
from torchdeck.runs.replay.history import RunHistory
from torchdeck.runs.run_state import RunState

STOP_LIMIT = 15.0
"""Seconds without the leader after which `stop --now` ends a run with no live process on reachable nodes."""


PATIENCE = 1.5
"""Multiple of launch.node_grace that the leader may be away although its followers have given it up: one that
returns sooner restarts the gang by itself.
"""


class Follower(Enum):
    """Known state of a follower node."""

    AWAY = 1
    """Unreachable."""
    SERVES = 2
    """It has an agent that has not given up the leader, or its ranks continue without it."""
    EMPTY = 3
    """No process of the run is alive there, and it has not reported why."""
    ENDS = 4
    """It has given up the leader, and is ending its ranks."""
    ENDED = 5
    """The same, and no rank is left there."""


class Seen(NamedTuple):
    """Observation of a controller at one time."""

    heard: float | None
    """When the leader node was last heard from; any clock. None: never."""
    reached: bool
    """It is reachable now."""
    followers: Mapping[str, Follower]
    stop_now: bool = False
    """`stop --now` was requested."""
    may_go_on: bool = False
    """The leader and the absent nodes may train on without the others, none of which took part."""


class LostLeader:
    """Watches the leader node of an active run."""

    def __init__(self, node: str, grace: float, now: float, lost_after: float | None = None) -> None:
        """Begin at `now` (monotonic seconds); `grace` is launch.node_grace."""
        self._node, self._grace, self._lost_after = node, grace, lost_after
        self._alone_since: float | None = None
        """Since when no node is reachable."""
        self._heard: float | None = None
        self._since = now
        self._empty_since: float | None = None
        """Since when a reachable follower has had no process of the run."""

    def look(self, seen: Seen, now: float) -> str:
        """Return why the run is given up; empty while it is not.

        Unless another node has given the leader up too, the leader may be healthy and this machine cut off
        from it. The same holds if only nodes without ranks have given it up: a spare that lost the others is
        no proof. Then the run is given up only if a user requests its end, or if no node at all was reachable
        for launch.lost_after, if that is set. A follower that stays without any
        process is a proof: it was rebooted, and its ranks are gone, however its leader is.
        """
        if seen.reached and seen.heard != self._heard:
            self._heard, self._since = seen.heard, now
        away = now - self._since
        is_alone = not seen.reached and all(does is Follower.AWAY for does in seen.followers.values())
        self._alone_since = (now if self._alone_since is None else self._alone_since) if is_alone else None
        is_empty = Follower.EMPTY in seen.followers.values()
        self._empty_since = (now if self._empty_since is None else self._empty_since) if is_empty else None
        empty = 0.0 if self._empty_since is None else now - self._empty_since
        is_lost = self._is_lost(now)
        if not is_lost and not self._is_given_up(seen, away, empty):
            return ""
        silent = [self._node, *(node for node, does in seen.followers.items() if does is Follower.AWAY)]
        ended = [node for node, does in seen.followers.items() if does is not Follower.AWAY]
        why = f"node {self._node}, the leader of the run, has not answered for {away:.0f} s"
        if len(silent) > 1:
            why += f", nor has {', '.join(silent[1:])}"
        if ended:
            why += f"; no rank is left on {', '.join(ended)}"
        elif seen.stop_now:
            why += "; a stop was asked for, and what may still run there ends when it is reached"
        elif is_lost:
            why += f"; given up after {self._lost_after:g} s without any node (launch.lost_after)"
        return why

    def _is_lost(self, now: float) -> bool:
        """Return whether no node was reachable for launch.lost_after."""
        limit, since = self._lost_after, self._alone_since
        return limit is not None and since is not None and now - since >= limit

    def _is_given_up(self, seen: Seen, away: float, empty: float) -> bool:
        found = seen.followers.values()
        if Follower.SERVES in found:
            return False
        if Follower.ENDS in found:  # processes that survive SIGKILL are not waited for
            return away >= 2 * self._grace and (seen.stop_now or not seen.may_go_on)
        if Follower.ENDED in found and away >= PATIENCE * self._grace and not seen.may_go_on:
            return True
        # for launch.node_grace an agent that is started there again could still follow the leader
        if empty >= self._grace and away >= 2 * self._grace and not seen.may_go_on:
            return True
        is_empty = Follower.ENDED in found or Follower.EMPTY in found
        return seen.stop_now and away >= (min(STOP_LIMIT, self._grace) if is_empty else self._grace)


class Nodes(Protocol):
    """The used part of the interface of `ConnectedNodes`."""

    def is_connected(self, node: str) -> bool:
        """Return whether a message to `node` would arrive now."""

    def heard(self, node: str) -> float | None:
        """Return when `node` was last heard from; None: never."""

    def lives(self, node: str, history: RunHistory) -> bool | None:
        """Return whether any process of the run is alive on `node`; None while it cannot be known."""

    def has_ranks(self, node: str) -> bool:
        """Return whether ranks of the run are known to be alive on `node`."""


class LeaderWatch:
    """The leader node of one run, as its controller sees it."""

    def __init__(
        self,
        layout: RunLayout,
        nodes: Nodes,
        names: tuple[str, ...],
        elastic: Elastic,
        policy: Policy,
        now: float,
    ) -> None:
        """Begin at `now` (monotonic seconds).

        Args:
            layout: the run.
            nodes: its nodes as they are reached.
            names: names of all its nodes, the leader's first.
            elastic: the gangs its plan allows.
            policy: its limits for silent nodes.
            now: monotonic seconds.
        """
        self._layout, self._nodes = layout, nodes
        self._lead, *self._others = names
        self._elastic = elastic
        self._rule = LostLeader(self._lead, policy.node_grace, now, policy.lost_after)

    def look(self, history: RunHistory, now: float, unanswered: str = "") -> dict[str, Any] | None:
        """Return the fields to journal as `lost`; None while the run continues.

        `unanswered` says why it is given up although the leader's node is reached; empty: it is not.

        Their state is LOST, or that of the attempt if all of its ranks are known to have ended.
        """
        followers = {node: self._follower(node, history) for node in self._others}
        reached = self._nodes.is_connected(self._lead)
        heard = self._nodes.heard(self._lead)
        stop_now = not reached and is_stop_now_asked(self._layout)
        seen = Seen(heard, reached, followers, stop_now, self._may_go_on(followers, history))
        why = unanswered or self._rule.look(seen, now)
        if not why:
            return None
        state, why = unheard_end(history, why) or (RunState.LOST, why)
        checkpoint = "" if history.checkpoints.newest is None else history.checkpoints.newest.path
        return {
            "state": state.value,
            "why": why,
            "resumable": bool(checkpoint) and state is not RunState.SUCCEEDED,
            "checkpoint": checkpoint,
            "attempt": history.attempt,
            "life": history.session,
            "nodes": [self._lead, *(node for node, does in followers.items() if does is Follower.AWAY)],
        }

    def _follower(self, node: str, history: RunHistory) -> Follower:
        lives = self._nodes.lives(node, history) if self._nodes.is_connected(node) else None
        if lives is None:
            return Follower.AWAY
        if node in history.nodes.go_on_alone and lives:
            return Follower.SERVES
        if node in history.nodes.gave_up_leader:
            return Follower.ENDS if self._nodes.has_ranks(node) else Follower.ENDED
        return Follower.SERVES if lives else Follower.EMPTY

    def _may_go_on(self, followers: Mapping[str, Follower], history: RunHistory) -> bool:
        """Return whether the leader and the absent nodes may have lost none but spares.

        If one of the other nodes took part in the attempt, that has ended. With the absent nodes the leader
        could begin another, but then nothing here would show whether it ever does.
        """
        here = [node for node, does in followers.items() if does is not Follower.AWAY]
        if len(here) == len(followers) or history.nodes.members.intersection(here):
            return False
        return self._elastic.without([Place(node, None) for node in here]) is not None
