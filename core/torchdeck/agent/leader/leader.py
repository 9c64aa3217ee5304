"""The leader: decides for the gang, orders its followers about, and carries out what is its own node's
part.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from torchdeck.agent.attempt.attempt_plan import describe_size
from torchdeck.agent.gang import commands, events
from torchdeck.agent.gang.gang import Gang
from torchdeck.agent.gang.recovered_state import RecoveredState
from torchdeck.agent.leader.channel import ChannelError, Exchange
from torchdeck.agent.leader.gang_messages import MessageError, event_from_json, number_of, to_json
from torchdeck.agent.leader.listener import Listener
from torchdeck.agent.leader.prepare_phase import PreparePhase
from torchdeck.agent.leader.silence import NodeNews, Silence, SilenceWatch
from torchdeck.contract.journal import JournalWriter
from torchdeck.contract.plan.elastic import Elastic, smaller_plan
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.run_states import GangPhase

PING_INTERVAL = 2.0
"""Seconds between two questions to each follower; less where silence is flagged sooner."""
FAREWELL_LIMIT = 5.0
"""Seconds to notify followers that the run is over."""


class Leader:
    """The gang's decisions on one side, the followers' connections on the other.

    Attributes:
        leads: True.
    """

    leads = True

    def __init__(
        self, plan: LaunchPlan, name: str, journal: JournalWriter, listener: Listener, now: float
    ) -> None:
        self._plan, self._name, self._journal, self._listener = plan, name, journal, listener
        self._elastic = Elastic.of_plan(plan)
        self._gang = Gang([node.name for node in plan.nodes], plan.policy, self._elastic)
        self._others = [node.name for node in plan.all_nodes if node.name != name]
        incarnation = os.urandom(8).hex()
        self._exchanges = {node: Exchange(incarnation) for node in self._others}
        self._greeted: set[str] = set()
        self._clocks = {node: ClockWatch() for node in self._others}
        policy = plan.policy
        self._silence = SilenceWatch(self._others, policy.node_silent, policy.node_grace, now)
        self._prepare_phase: PreparePhase | None = None
        self._members: tuple[str, ...] = tuple(node.name for node in plan.nodes)
        self._ping_interval = min(PING_INTERVAL, policy.node_silent / 4, policy.node_grace / 4)
        self._ping_due = now
        self._end = ""

    @property
    def phase(self) -> GangPhase:
        return self._gang.phase

    @property
    def number(self) -> int:
        return self._gang.number

    @property
    def deadline(self) -> float | None:
        times = (self._gang.deadline, self._silence.deadline, self._ping_due)
        return min(time for time in times if time is not None)

    @property
    def descriptors(self) -> list[tuple[int, int]]:
        return self._listener.descriptors

    def resume(self, recovered: RecoveredState, now: float) -> list[commands.Command]:
        """Continue after the journal of an earlier leader of this run; return the commands for this node."""
        orders = self._gang.resume(recovered, now)
        here: list[commands.Command] = []
        if recovered.launching is not None:
            roster = self._elastic.without(recovered.launching.left_out) or self._elastic.full
            self._members = roster.nodes
            self._prepare_phase = PreparePhase.resumed(recovered.launching, roster.nodes)
            here += self._launch(self._prepare_phase, now)
            if recovered.open:
                here = []  # the node takes its own part over
        return here + self._after(orders, now)

    def handle(self, event: events.Event, now: float) -> list[commands.Command]:
        """Take in an event of this node; returns what is to be done here."""
        return self._tell(event, now)

    def exchange(self, now: float) -> list[commands.Command]:
        """Hear and answer the followers; returns what is to be done here."""
        here: list[commands.Command] = []
        joined, came = self._listener.look()
        for node in joined:
            self._greeted.discard(node)
            self._listener.send(node, self._exchanges[node].greeting())
        for node, message in came:
            here += self._heard(node, message, now)
        for news in self._silence.look(now):
            here += self._silent(news, now)
        if now >= self._ping_due:
            self._ping_due = now + self._ping_interval
            for node in self._greeted:
                self._ping(node, now)
        return here

    def close(self) -> None:
        """The run is over: tell the followers that are there, then hang up."""
        if self._end:
            for node in self._others:
                self._order(node, commands.Leave(self._end))
        limit = time.monotonic() + FAREWELL_LIMIT
        # one that is just connecting, or was cut off a moment ago, is waited for as well
        there = self._silence.watched - self._silence.lost
        while time.monotonic() < limit and not all(self._exchanges[node].settled for node in there):
            time.sleep(0.01)
            joined, came = self._listener.look()
            for node in joined:
                self._listener.send(node, self._exchanges[node].greeting())
            for node, message in came:
                self._acknowledge(node, message)
        self._listener.close()

    # what followers say

    def _heard(self, node: str, message: dict[str, Any], now: float) -> list[commands.Command]:
        here: list[commands.Command] = []
        for news in self._silence.heard(node, now):
            here += self._silent(news, now)
        try:
            if "m" in message:
                entry = self._exchanges[node].take(message)
                if entry is None:
                    return here
                self._listener.send(node, self._exchanges[node].acknowledgement())
                return here + self._tell(self._own(node, event_from_json(entry.message)), now)
            if "pong" in message:
                self._measure(node, message, now)
            else:
                here += self._acknowledge(node, message, now)
        except (ValueError, MessageError, ChannelError) as error:
            self._listener.drop(node, str(error))
        return here

    def _acknowledge(
        self, node: str, message: dict[str, Any], now: float | None = None
    ) -> list[commands.Command]:
        exchange = self._exchanges[node]
        if "ack" in message:
            exchange.acknowledged(message["ack"])
            return []
        if "who" not in message:
            return []
        self._greeted.add(node)
        for entry in exchange.greeted(message):
            self._listener.send(node, entry)
        if now is None:
            return []
        self._ping(node, now)
        self._journal.append("node_joined", node=node)
        return self._tell(events.NodeReady(node), now)

    def _own(self, node: str, event: events.Event) -> events.Event:
        """The event, if it is of the node that says it; its time of a failure by our clock.

        Raises:
            MessageError: it speaks for another node.
        """
        if getattr(event, "node", node) != node:
            raise MessageError(f"node {node} speaks for another")
        if isinstance(event, events.Arrived):
            return on_our_clock(event, self._clocks[node].best)
        if isinstance(event, events.NodeClean) and event.failure is not None and event.failure.time:
            offset = self._clocks[node].best
            if offset is not None:
                said = event.failure
                failure = said._replace(time=said.time - offset.seconds, error=said.error + offset.error)
                event = event._replace(failure=failure)
        return event

    def _ping(self, node: str, now: float) -> None:
        self._listener.send(node, {"ping": now, "wall": time.time()})

    def _measure(self, node: str, message: dict[str, Any], now: float) -> None:
        asked, wall, theirs = (number_of(message, name) for name in ("pong", "wall", "time"))
        news = self._clocks[node].add(measured(wall, wall + (now - asked), theirs))
        if news is not None:
            self._journal.append("clock", node=node, offset=news.seconds, error=news.error)

    def _silent(self, news: Silence, now: float) -> list[commands.Command]:
        self._journal.append(
            f"node_{news.what}",
            node=news.node,
            seconds=round(news.seconds, 3),
            grace=self._plan.policy.node_grace,
        )
        if news.what is NodeNews.BACK:
            return self._tell(events.NodeBack(news.node), now)
        kind = events.NodeLost if news.what is NodeNews.LOST else events.NodeSilent
        return self._tell(kind(news.node, news.seconds, time.time() - news.seconds), now)

    # what the gang decides

    def _tell(self, event: events.Event, now: float) -> list[commands.Command]:
        prepare_phase = self._prepare_phase
        if not isinstance(event, events.Offered):
            return self._after(self._gang.handle(event, now), now)
        if prepare_phase is None or prepare_phase.chosen:
            return []
        here: list[commands.Command] = []
        for failed in prepare_phase.offered(event):
            here += self._after(self._gang.handle(failed, now), now)
        if prepare_phase.chosen and not prepare_phase.given_up and self._gang.phase is GangPhase.STARTING:
            here += self._start(prepare_phase, now)
        return here

    def _start(self, prepare_phase: PreparePhase, now: float) -> list[commands.Command]:
        launch = prepare_phase.chosen[0]
        roster = self._elastic.without(prepare_phase.left_out) or self._elastic.full
        self._journal.append(
            "launching",
            attempt=launch.attempt,
            reason=launch.reason,
            port=launch.port,
            resume=None if launch.resume is None else launch.resume._asdict(),
            left_out=[place._asdict() for place in launch.left_out],
            nodes=prepare_phase.nodes,
            **describe_size(smaller_plan(self._plan, roster), self._plan, ""),
        )
        return self._launch(prepare_phase, now)

    def _launch(self, prepare_phase: PreparePhase, now: float) -> list[commands.Command]:
        # left out, it still writes the attempt's plan
        return self._route(prepare_phase.chosen, now) or [prepare_phase.chosen[0]._replace(node=self._name)]

    def _after(self, orders: list[commands.Command], now: float) -> list[commands.Command]:
        here = self._route(orders, now)
        prepare_phase = self._prepare_phase
        if (
            self._gang.phase is GangPhase.STOPPING
            and prepare_phase is not None
            and not prepare_phase.given_up
        ):
            # a node that has started torchrun is ended by it; one that has not must not start
            prepare_phase.given_up = True
            here += self._route(
                [commands.Abandon(node, prepare_phase.number) for node in prepare_phase.nodes], now
            )
        return here

    def _route(self, orders: Sequence[commands.Command], now: float) -> list[commands.Command]:
        here: list[commands.Command] = []
        for command in orders:
            if isinstance(command, commands.LaunchAttempt):
                here += self._open(command, now)
            elif isinstance(command, commands.TouchStop):
                here += self._to(self._members[0], command)
            elif isinstance(command, commands.EndAttempt):
                for node in self._members:
                    if node != self._name:
                        self._order(node, commands.CloseAttempt(command.attempt, command.outcome))
                here.append(command)
            elif isinstance(command, commands.Finish):
                self._end = f"{command.state}: {command.why}"
                here.append(command)
            elif isinstance(target := getattr(command, "node", None), str):
                here += self._to(target, command)
            else:
                here.append(command)
        return here

    def _open(self, command: commands.LaunchAttempt, now: float) -> list[commands.Command]:
        roster = self._elastic.without(command.left_out) or self._elastic.full
        gone = [node for node in self._members if node not in roster.nodes]
        self._members = roster.nodes
        self._prepare_phase = PreparePhase(command, roster.nodes, self._plan.checkpoint.resume)
        here: list[commands.Command] = []
        for exchange in self._exchanges.values():
            exchange.forget_before(command.attempt)
        for node in gone:
            self._silence.forget(node)
            here += self._to(
                node, commands.Leave("the run continues without this node"), commands.ReleaseLeases(node)
            )
        self._silence.again(now)
        return here + self._route(self._prepare_phase.orders, now)

    def _to(
        self, node: str, command: commands.Command, here: commands.Command | None = None
    ) -> list[commands.Command]:
        """Order it on a node; returns what is to be done here, `here` if that is another thing."""
        if node == self._name:
            return [here or command]
        self._order(node, command)
        return []

    def _order(self, node: str, command: commands.Command) -> None:
        exchange = self._exchanges[node]
        if isinstance(command, (commands.AcquireLeases, commands.ReleaseLeases)):
            exchange.forget("AcquireLeases", "ReleaseLeases")
        message = exchange.tell(self._gang.number, to_json(command))
        if node in self._greeted:
            self._listener.send(node, message)


def on_our_clock(event: events.Arrived, offset: Offset | None) -> events.Arrived:
    """Return arrivals by our clock; without reports as long as the other clock is not known."""
    if offset is None:
        return event._replace(reports=())
    shift = round(offset.seconds * 1e6)
    reports = tuple(
        report._replace(arrivals=report.arrivals._replace(begin=report.arrivals.begin - shift))
        for report in event.reports
    )
    return event._replace(reports=reports, error=offset.error)


# How far other nodes' clocks are from this one's, by questions and answers. Pure.

KEPT = 16
"""Measurements that count; clocks drift."""
NEWS = 0.010
"""Change of an offset in seconds, beyond its error, from which it is reported again."""


class Offset(NamedTuple):
    """`theirs - ours` in seconds, and by how much that may be wrong."""

    seconds: float
    error: float


def measured(asked: float, answered: float, theirs: float) -> Offset:
    """The offset by one question: asked and answered on our clock, `theirs` read in between."""
    return Offset(theirs - (asked + answered) / 2.0, max(0.0, answered - asked) / 2.0)


class ClockWatch:
    """One other clock. The quickest of the last answers is the best: half its time is the error."""

    def __init__(self) -> None:
        self._measured: list[Offset] = []
        self._said: Offset | None = None

    @property
    def best(self) -> Offset | None:
        return min(self._measured, key=lambda offset: offset.error, default=None)

    def add(self, offset: Offset) -> Offset | None:
        """Add a measurement; return the best one if it changed."""
        self._measured = [*self._measured[-KEPT + 1 :], offset]
        best, said = self.best, self._said
        if best is None:
            return None
        if said is not None and abs(best.seconds - said.seconds) < NEWS + best.error + said.error:
            return None
        self._said = best
        return best
