"""Problems of the nodes of an active run: lost links, silent nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from torchdeck.contract.plan.policy import Policy
from torchdeck.runs import reasons
from torchdeck.runs.links import CONNECTING, LOST, UP, LinkState
from torchdeck.runs.replay import typed
from torchdeck.runs.replay.history import RunHistory
from torchdeck.runs.replay.ranks_seen import beat_time
from torchdeck.runs.run_state import Liveness, NodeLiveness

LATE = "late"
"""State of an agent without a recent heartbeat."""
HEARTBEAT_LATE = 15.0
"""Age in seconds at which a heartbeat is reported as late."""
CLOCK_MATTERS = 1.0
"""Clock difference in seconds from which times are corrected: every measurement of an offset varies."""
CLOCK_WRONG = 1e9
"""Clock difference in seconds that cannot be a clock error; such a value is ignored."""
CONNECTING_LATE = 10.0
"""Seconds that connecting to a node normally takes at most."""


class TroubleKind(StrEnum):
    """Kind of a node's problem."""

    LINK = "link"
    """Its link to this machine."""
    SILENT = "silent"
    """Its contact with the leader."""
    AGENT = "agent"
    """Its agent's heartbeat."""
    DISK = "disk"
    """Disk space on this machine for its files."""


@dataclass(frozen=True)
class NodeTrouble:
    """Problem of one node; while it lasts only its age changes."""

    node: str
    what: TroubleKind
    state: str
    """State of the problem; a different state is a new event."""
    since: float | None
    """Time at which it began, unix seconds on this machine's clock; None: unknown."""
    text: str
    """Current description with its age, as a sentence."""

    def over(self, now: float) -> str:
        """Return the text for when it is over; `now` in unix seconds."""
        after = "" if self.since is None else f" after {max(0.0, now - self.since):.0f} s"
        if self.what is TroubleKind.SILENT:
            return f"node {self.node} answers the others again{after}"
        if self.what is TroubleKind.AGENT:
            return f"the agent on {self.node} is back{after}"
        if self.what is TroubleKind.DISK:
            return f"{self.state} of node {self.node} are copied here again"
        if self.state == CONNECTING:
            return f"node {self.node}: reached{after}"
        return f"node {self.node}: {'link is back' if self.state == LOST else 'followed again'}{after}"


def node_troubles(
    history: RunHistory,
    heartbeats: Mapping[str, Mapping[str, Any]],
    liveness: Liveness,
    now: float,
) -> tuple[NodeTrouble, ...]:
    """Return all problems, in the order of nodes; arguments as for `view.view`."""
    found = list(_silent(history, liveness, now))
    for node in {**history.agents, **liveness.nodes}:
        alive = liveness.nodes.get(node, NodeLiveness())
        begun, ahead = history.agent_begun(node), _ahead(node, liveness)
        since = None if begun is None else begun - ahead
        found += _of_node(
            node, alive, heartbeats.get(node, {}), now, followed=liveness.controller, since=since
        )
    return tuple(found)


def unheard(history: RunHistory, liveness: Liveness, now: float) -> tuple[str, ...]:
    """Return a sentence about a run none of whose nodes has answered for 2 × launch.node_grace; empty if one
    has, or part of the run is on this machine.
    """
    links = [each.link for each in liveness.nodes.values()]
    if not links or not history.is_begun or liveness.followed_until is not None:
        return ()
    created = history.created.fields if history.created is not None else {}
    limit = 2 * (typed.number(created, "node_grace") or Policy.node_grace)
    for link in links:
        if (
            link is None
            or link.state == UP
            or now - (link.since if link.heard is None else link.heard) < limit
        ):
            return ()
    return (reasons.unheard(limit, typed.number(created, "lost_after")),)


def clock_ahead(history: RunHistory, liveness: Liveness) -> float:
    """Return the seconds by which the leader's clock, used for a run's events, is ahead of ours; 0 if the
    difference is small.
    """
    return node_ahead(_lead(history), liveness)


def node_ahead(node: str, liveness: Liveness) -> float:
    """Return the seconds by which the clock of `node` is ahead of ours; 0 if the difference is small."""
    ahead = _ahead(node, liveness)
    return round(ahead, 1) if CLOCK_MATTERS < abs(ahead) < CLOCK_WRONG else 0.0


def _lead(history: RunHistory) -> str:
    return next((node for node in history.agents if node not in history.nodes.followers), "")


def _ahead(node: str, liveness: Liveness) -> float:
    link = liveness.nodes.get(node, NodeLiveness()).link
    return 0.0 if link is None or link.clock_offset is None else link.clock_offset


def _silent(history: RunHistory, liveness: Liveness, now: float) -> Iterator[NodeTrouble]:
    """Yield nodes that the leader does not hear, timed by the leader's own clock."""
    ahead = _ahead(_lead(history), liveness)
    for node, event in sorted(history.nodes.silent.items()):
        since = event.time - ahead - (typed.number(event.fields, "seconds") or 0.0)
        given_up = event.name == "node_lost"
        text = reasons.silent(node, now - since, typed.number(event.fields, "grace"), given_up=given_up)
        yield NodeTrouble(node, TroubleKind.SILENT, event.name, since, text)


def _of_node(
    node: str,
    alive: NodeLiveness,
    heartbeat: Mapping[str, Any],
    now: float,
    *,
    followed: bool,
    since: float | None,
) -> Iterator[NodeTrouble]:
    """Yield the problems of one node.

    Args:
        node: its name.
        alive: which of its processes are alive, and its link.
        heartbeat: content of its heartbeat file.
        now: seconds since the epoch.
        followed: whether a controller follows the run.
        since: when the agent of this session started there, by our clock; None before that.
    """
    link = alive.link
    if link is not None and not alive.known:
        if not _is_beginning(link, now, followed=followed):
            text = reasons.link(link, _last_step(heartbeat), now)
            yield NodeTrouble(node, TroubleKind.LINK, link.state, reasons.link_since(link), text)
        return
    if link is not None and link.held:
        yield NodeTrouble(node, TroubleKind.DISK, link.held, None, reasons.held_back(node, link.held))
    beat = beat_time(heartbeat, link)
    if alive.any and not alive.agent:
        yield NodeTrouble(node, TroubleKind.AGENT, "gone", beat, reasons.agent_gone(node))
    elif beat is not None and since is not None:
        # before a resume there was no agent to be heard, and its file is still the old one
        heard = max(beat, since)
        if now - heard > HEARTBEAT_LATE:
            yield NodeTrouble(node, TroubleKind.AGENT, LATE, heard, reasons.agent_late(node, now - heard))


def _is_beginning(link: LinkState, now: float, *, followed: bool) -> bool:
    """Return whether a node is just connecting, or has just connected: no problem."""
    if link.state == UP:
        return followed
    return link.state == CONNECTING and 0.0 <= now - link.since < CONNECTING_LATE


def _last_step(heartbeat: Mapping[str, Any]) -> int | None:
    """Return the furthest step of the node's ranks at its last contact; None if they count no steps."""
    ranks = [value for value in typed.mapping(heartbeat, "ranks").values() if isinstance(value, Mapping)]
    return max((step for rank in ranks if (step := typed.whole(rank, "step"))), default=None)
