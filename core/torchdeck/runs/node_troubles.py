"""Problems of the nodes of an active run: lost links, silent nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torchdeck.runs import reasons
from torchdeck.runs.links import CONNECTING, LOST, UP, LinkState
from torchdeck.runs.replay import fields as read
from torchdeck.runs.replay.history import RunHistory
from torchdeck.runs.replay.ranks_seen import beat_time
from torchdeck.runs.state import Liveness, NodeLiveness

HEARTBEAT_LATE = 15.0
"""Age in seconds at which a heartbeat is reported as late."""
CLOCK_MATTERS = 1.0
"""Clock difference in seconds from which times are corrected: every measurement of an offset varies."""
CLOCK_WRONG = 1e9
"""Clock difference in seconds that cannot be a clock error; such a value is ignored."""
CONNECTING_LATE = 10.0
"""Seconds that connecting to a node normally takes at most."""


@dataclass(frozen=True)
class NodeTrouble:
    """Problem of one node; while it lasts only its age changes."""

    node: str
    what: Literal["link", "silent", "agent", "disk"]
    """A node's link to here, its contact with the leader, its agent's heartbeat, disk space here for its
    files.
    """
    state: str
    """State of the problem; a different state is a new event."""
    since: float | None
    """Time at which it began, unix seconds on this machine's clock; None: unknown."""
    text: str
    """Current description with its age, as a sentence."""

    def over(self, now: float) -> str:
        """Return the text for when it is over; `now` in unix seconds."""
        after = "" if self.since is None else f" after {max(0.0, now - self.since):.0f} s"
        if self.what == "silent":
            return f"node {self.node} is heard by the others again{after}"
        if self.what == "agent":
            return f"the agent on {self.node} is there again{after}"
        if self.what == "disk":
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
        found += _of_node(node, alive, heartbeats.get(node, {}), now, followed=liveness.controller)
    return tuple(found)


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
        since = event.time - ahead - (read.number(event.fields, "seconds") or 0.0)
        given_up = event.name == "node_lost"
        text = reasons.silent(node, now - since, read.number(event.fields, "grace"), given_up=given_up)
        yield NodeTrouble(node, "silent", event.name, since, text)


def _of_node(
    node: str, alive: NodeLiveness, heartbeat: Mapping[str, Any], now: float, *, followed: bool
) -> Iterator[NodeTrouble]:
    link = alive.link
    if link is not None and not alive.known:
        if not _is_beginning(link, now, followed=followed):
            text = reasons.link(link, _last_step(heartbeat), now)
            yield NodeTrouble(node, "link", link.state, reasons.link_since(link), text)
        return
    if link is not None and link.held:
        yield NodeTrouble(node, "disk", link.held, None, reasons.held_back(node, link.held))
    beat = beat_time(heartbeat, link)
    if alive.any and not alive.agent:
        yield NodeTrouble(node, "agent", "gone", beat, reasons.agent_gone(node))
    elif beat is not None and now - beat > HEARTBEAT_LATE:
        yield NodeTrouble(node, "agent", "late", beat, reasons.agent_late(node, now - beat))


def _is_beginning(link: LinkState, now: float, *, followed: bool) -> bool:
    """Return whether a node is just connecting, or has just connected: no problem."""
    if link.state == UP:
        return followed
    return link.state == CONNECTING and 0.0 <= now - link.since < CONNECTING_LATE


def _last_step(heartbeat: Mapping[str, Any]) -> int | None:
    """Return the furthest step of the node's ranks at its last contact; None if they count no steps."""
    ranks = [value for value in read.mapping(heartbeat, "ranks").values() if isinstance(value, Mapping)]
    return max((step for rank in ranks if (step := read.whole(rank, "step"))), default=None)
