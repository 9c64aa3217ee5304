"""Since when each node is silent, and what that has led to. Pure: time is an argument."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import NamedTuple

from torchdeck.agent.gang import commands, events
from torchdeck.agent.gang.gang import Gang
from torchdeck.agent.gang.recovered_state import RecoveredState
from torchdeck.agent.gang.recovery import NEVER_RAN_RETRIES
from torchdeck.contract.plan.policy import Policy
from torchdeck.contract.run_states import StopCause, StopKind, TextEnum


class NodeNews(TextEnum):
    """Change of a node's state; journaled as `node_silent`, and so on."""

    SILENT = "silent"
    BACK = "back"
    LOST = "lost"


class Silence(NamedTuple):
    """News of a node's silence."""

    node: str
    what: NodeNews
    seconds: float


class SilenceWatch:
    """Flags nodes after `flag` seconds without a word and gives them up after `grace`."""

    def __init__(self, nodes: Iterable[str], flag: float, grace: float, now: float) -> None:
        self._flag, self._grace = min(flag, grace), grace
        self._heard = dict.fromkeys(nodes, now)
        self._flagged: set[str] = set()
        self._lost: set[str] = set()

    def heard(self, node: str, now: float) -> list[Silence]:
        """A node spoke."""
        if node not in self._heard:
            return []
        seconds, self._heard[node] = now - self._heard[node], now
        self._lost.discard(node)
        if node not in self._flagged:
            return []
        self._flagged.remove(node)
        return [Silence(node, NodeNews.BACK, seconds)]

    def look(self, now: float) -> list[Silence]:
        """News that time alone brings."""
        found = []
        for node, heard in self._heard.items():
            if now - heard >= self._flag and node not in self._flagged:
                self._flagged.add(node)
                found.append(Silence(node, NodeNews.SILENT, now - heard))
            if now - heard >= self._grace and node not in self._lost:
                self._lost.add(node)
                found.append(Silence(node, NodeNews.LOST, now - heard))
        return found

    def again(self, now: float) -> None:
        """Those who are lost get another grace: the gang is started again with them."""
        for node in self._lost:
            self._heard[node] = now
        self._lost.clear()

    def forget(self, node: str) -> None:
        """A node that takes no part any more may be silent."""
        self._heard.pop(node, None)
        self._flagged.discard(node)
        self._lost.discard(node)

    @property
    def watched(self) -> frozenset[str]:
        """Nodes that must report."""
        return frozenset(self._heard)

    @property
    def lost(self) -> frozenset[str]:
        """Nodes that were given up, and have not reported since."""
        return frozenset(self._lost)

    @property
    def deadline(self) -> float | None:
        """Time at which `look` has news if no node reports."""
        times = [
            heard + (self._grace if node in self._flagged else self._flag)
            for node, heard in self._heard.items()
            if node not in self._lost
        ]
        return min(times, default=None)


# A follower without a leader ends its ranks, or waits for their end, and leaves. Pure.
#
# So does one that the leader has given up: the others have continued without it, or the run is over.

WHY = "the leading node has been silent for longer than launch.node_grace"


class Leaderless:
    """This node as a gang of its own, which starts nothing any more."""

    def __init__(
        self, node: str, policy: Policy, number: int, now: float, *, running: bool, leaving: str = ""
    ) -> None:
        """Take over from the leader.

        Args:
            node: this one.
            policy: of the run.
            number: of the attempt.
            now: monotonic seconds.
            running: torchrun of the attempt has been started and nothing says that all is over.
            leaving: why the leader wants the node to go; empty if it is the leader that is away.
        """
        if leaving:
            policy = dataclasses.replace(policy, unattended="stop", node_grace=0.0)
        self._why, self._leaves = leaving or WHY, bool(leaving)
        self._node, self._policy, self._number = node, policy, number
        self._gang = Gang([node], dataclasses.replace(policy, max_restarts=0, on_hang="watch"))
        self._running = running
        self._asked = False
        """To end: the leader is not waited for any more."""
        # once it had a part in an attempt, the leader may come back and begin another
        self._patience = policy.node_grace * (1 + NEVER_RAN_RETRIES * (policy.max_restarts > 0))
        """Seconds for the lead to come back once nothing runs here: it would wait for this node as long."""
        self._depart_at: float | None = None if running else now + self._patience * (number > 0)

    @property
    def deadline(self) -> float | None:
        return self._gang.deadline if self._depart_at is None else self._depart_at

    @property
    def ends_something(self) -> bool:
        """Whether ranks are being ended, or the node leaves: that continues even if the leader is back."""
        return self._leaves or (self._depart_at is None and self._policy.unattended == "stop")

    def begin(self, now: float, exited: events.TorchrunExited | None = None) -> list[commands.Command]:
        """Return the commands to run at once; `exited` is the known exit of torchrun, if any."""
        if not self._running:
            return self._lease([commands.Abandon(self._node, self._number)] if self._number else [])
        orders = self._gang.resume(RecoveredState(attempt=self._number, open=True, running=True), now)
        if self._policy.unattended == "stop":
            stop = events.StopRequested(StopKind.NOW, StopCause.LEADER, None, self._why)
            orders += self._gang.handle(stop, now)
        else:
            orders.append(commands.GoAlone(self._node, self._number))
        if exited is not None:
            orders += self._gang.handle(exited, now)
        return self._translated(orders, now)

    def handle(self, event: events.Event, now: float) -> list[commands.Command]:
        """Take in what happens on this node."""
        if isinstance(event, events.StopRequested):
            self._asked = True
            if self._depart_at is not None:
                self._depart_at = now
        return self._translated(self._gang.handle(event, now), now) if self._running else []

    def tick(self, now: float) -> list[commands.Command]:
        """Return the commands that are due by time alone."""
        if self._depart_at is not None:
            may_return = not self._leaves and not self._asked
            return [commands.Leave(self._why, may_return)] if now >= self._depart_at else []
        return self._translated(self._gang.handle(events.Tick(), now), now)

    def _translated(self, orders: list[commands.Command], now: float) -> list[commands.Command]:
        found: list[commands.Command] = []
        for command in orders:
            if isinstance(command, commands.EndAttempt):
                found.append(commands.CloseAttempt(command.attempt, command.outcome))
            elif isinstance(command, commands.Finish):
                self._depart_at = now + self._patience * (not self._asked)
                found += self._lease([])
            elif not isinstance(
                command, (commands.AnnounceStopping, commands.AnnounceRunning, commands.AnnounceSavesOnStop)
            ):
                found.append(command)
        return found

    def _lease(self, orders: list[commands.Command]) -> list[commands.Command]:
        """Nothing runs here: the devices are free for others."""
        return [*orders, commands.ReleaseLeases(self._node)]
