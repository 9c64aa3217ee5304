"""The agent: carries out what the gang decides on this node, tells it what happens, and writes it all down.

One loop wakes when a watched process ends, and a few times a second to look at small files; it never waits on
anything else.
"""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torchdeck.agent.attempt.handover import NOTHING, Handover, hand_on
from torchdeck.agent.execution import Execution
from torchdeck.agent.gang import commands, events
from torchdeck.agent.gang.recovered_state import RecoveredState
from torchdeck.agent.gang_node import GangNode
from torchdeck.agent.heartbeat import Heartbeat
from torchdeck.agent.inbox import CONTROLLER, KINDS, REPLACED, STACKS, Inbox
from torchdeck.agent.node import LocalNode
from torchdeck.agent.own_clock import OwnClock
from torchdeck.agent.role import Alone, Role
from torchdeck.contract.journal import PatientJournalWriter
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.elastic import Elastic
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.plan.policy import Policy
from torchdeck.contract.run_states import GangPhase, StopCause, StopKind
from torchdeck.contract.waiting import wait_for

if TYPE_CHECKING:
    from torchdeck.agent.alerts.alert_watch import AlertWatch
    from torchdeck.agent.ranks.observation import Observation

LOOK_INTERVAL = 0.25
"""Seconds between two looks at the inbox and at what ranks report."""
FIRST_LOOK = 0.15
"""Seconds from a fresh start to the first look: torchrun's start comes before all else, imports included."""
BEAT_INTERVAL = 1.0
"""Seconds between two heartbeats, and between two looks at all that may wait."""
END_LIMIT = 30.0
"""Seconds to wait for room on a full disk for the run's last events."""
_STOP_CAUSES = {CONTROLLER: StopCause.NODE, REPLACED: StopCause.REPLACED}
"""Origin of a stop request → its cause in `StopRequested`; all others are users."""
URGENT_INTERVAL = 0.01
"""Seconds between two looks while something starts or ends that no descriptor announces."""


class Agent:
    """One node's supervisor; its part in the gang says what it is to do."""

    def __init__(
        self,
        layout: RunLayout,
        plan: LaunchPlan,
        name: str,
        journal: PatientJournalWriter,
        agent: Sequence[str],
        handover: Handover = NOTHING,
        part: Role | None = None,
        session: int = 0,
    ) -> None:
        self._layout = layout
        self._plan = plan
        self._policy: Policy = plan.policy
        self._name = name
        self._journal = journal
        self._handover = handover
        self._clock = OwnClock()
        if part is None:
            self._role: Role = Alone([name], plan.policy, Elastic.of_plan(plan))
            self._node: LocalNode = LocalNode(layout, plan, name, journal, agent, handover, self._clock)
        else:
            self._role = part
            self._node = GangNode(layout, plan, name, journal, agent, handover, self._clock)
            self._node.leads = part.leads
        self._execution = Execution(
            layout, plan, name, journal, self._node, self._role, lambda: self._seen, self._beat
        )
        self._session = session
        self._alerts = alert_watch(layout, plan, name, journal, handover, session)
        self._inbox = Inbox(layout.node(name).inbox, frozenset(), session)
        self._observation: Observation | None = None
        self._heartbeat = Heartbeat(layout.node(name).heartbeat)
        self._events: deque[events.Event] = deque()
        self._look_due = self._beat_due = 0.0
        self._started: float | None = None
        self._limit_reached = False
        self._vanished = False

    @property
    def _seen(self) -> Observation:
        if self._observation is None:
            from torchdeck.agent.ranks.observation import Observation

            self._observation = Observation(self._layout, self._plan, self._name, self._journal, self._clock)
        return self._observation

    def keep_leases(self, descriptors: Sequence[int]) -> None:
        """Continue with device leases that an earlier agent of this run took."""
        self._node.devices.leases.keep(descriptors)

    def run(self, recovered: RecoveredState) -> None:
        """Supervise until the run is finished.

        Args:
            past: what earlier agents of this run journaled.
        """
        self._take_over(recovered)
        while not self._execution.finished:
            self._turn(self._clock())
            if not self._execution.finished:
                self._wait()
        self._end()
        self._seen.close()

    def _take_over(self, recovered: RecoveredState) -> None:
        self._started = recovered.started
        if recovered.gang_open:
            recovered = recovered._replace(seconds=max(0.0, time.time() - recovered.began))
        self._inbox = Inbox(self._layout.node(self._name).inbox, recovered.requests, self._session)
        if recovered.checkpoints:
            self._seen.know(recovered)
        if recovered.open:
            plan = self._seen.read_plan(recovered.attempt, leads=self._role.leads)
            self._node.adopt(recovered.attempt, plan, recovered.stopped_at)
            self._seen.begin(recovered.attempt, plan, recovered)
        else:
            self._node.remember_holder(recovered.attempt)
            self._look_due = self._beat_due = self._clock() + FIRST_LOOK
        self._execute(self._role.resume(recovered, self._clock()))
        self._events.append(events.NodeReady(self._name))

    def _wait(self) -> None:
        now = self._clock()
        until = min(self._look_due, self._beat_due, self._role.deadline or self._beat_due)
        if self._node.urgent:
            until = min(until, now + URGENT_INTERVAL)
        poll = select.poll()
        for descriptor in self._node.descriptors:
            poll.register(descriptor, select.POLLIN)
        for descriptor, happened in self._role.descriptors:
            poll.register(descriptor, happened)
        poll.poll(max(1.0, (until - now) * 1000.0))

    def _turn(self, now: float) -> None:
        self._note_gap()
        beat, looks = now >= self._beat_due, now >= min(self._look_due, self._beat_due)
        if now >= self._look_due:
            self._look_due = now + LOOK_INTERVAL
            if not self._vanished:
                self._look()
        if beat:
            self._beat_due = now + BEAT_INTERVAL
            self._journal.catch_up()
            self._look_for_directory()
            if not self._vanished:
                self._look_closely()
        self._execute(self._role.exchange(self._clock()))
        self._events.extend(self._from_node())
        self._events.append(events.Tick())
        while self._events and not self._execution.finished:
            self._execute(self._role.handle(self._events.popleft(), self._clock()))
        if self._role.phase is GangPhase.STOPPING:
            abandoned = self._node.abandon()
            if abandoned is not None:
                self._events.append(abandoned)
        if beat and not self._execution.finished:
            self._beat()
            if self._alerts is not None and not self._vanished:
                self._alerts.look(self._seen.states, self._seen.disk_free)
        if looks and not self._vanished and not self._execution.finished:
            self._seen.parse(closely=beat)  # last: what ranks print may take all the time that there is

    def _execute(self, orders: list[commands.Command]) -> None:
        for command in orders:
            if not self._execution.finished:
                self._events.extend(self._execution.carry_out(command))

    def _end(self) -> None:
        self._beat()
        if not wait_for(self._journal.catch_up, END_LIMIT, BEAT_INTERVAL):
            return  # the shim starts another agent, which ends the run if there is space
        self._role.close()
        self._node.release()
        if self._alerts is not None and not self._vanished:
            self._alerts.end()

    # what happens

    def _look(self) -> None:
        if self._handover.token:
            hand_on(self._layout.node(self._name).inbox, self._handover)
        for request in self._inbox.read_new():
            self._journal.append("request", id=request.id, kind=request.kind)
            if request.kind == STACKS:
                self._events.append(events.StacksAsked(request.id))
                continue
            if request.wanted is not None:
                self._events.append(events.ProfileAsked(request.id, *request.wanted))
                continue
            why = _STOP_CAUSES.get(request.origin, StopCause.USER)
            self._events.append(events.StopRequested(KINDS[request.kind], why, request.id, request.detail))
        self._events.extend(self._seen.look(self._name))

    def _note_gap(self) -> None:
        gap = self._clock.take_gap()
        if gap:
            self._journal.append("agent_paused", seconds=round(gap, 3))

    def _look_for_directory(self) -> None:
        """A run whose directory was deleted can neither be seen nor stopped any more: it is ended."""
        # by its plan: a process that still writes there may have recreated the folder
        if not self._vanished and not self._layout.plan.exists():
            self._vanished = True
            self._events.append(
                events.StopRequested(StopKind.NOW, StopCause.GONE, None, str(self._layout.root))
            )

    def _look_closely(self) -> None:
        self._events.extend(self._seen.look_closely())
        limit = self._policy.max_seconds
        # one clock is enough for a limit of the run
        over = (
            self._role.leads
            and limit is not None
            and self._started is not None
            and time.time() - self._started > limit
        )
        if over and not self._limit_reached:
            self._limit_reached = True
            self._events.append(
                events.StopRequested(StopKind.GRACEFUL, StopCause.LIMIT, None, f"{limit:.0f} s")
            )

    def _from_node(self) -> list[events.Event]:
        happened = []
        exits = self._observation.exits if self._observation is not None else {}
        for event in self._node.poll(exits):
            if isinstance(event, events.AttemptLaunched):
                self._started = self._started or time.time()
                self._seen.begin(event.attempt, self._node.plan, RecoveredState())
            elif isinstance(event, events.TorchrunExited):
                self._events.extend(self._seen.look(self._name))
                self._events.extend(self._seen.reached())
                self._events.extend(self._seen.look_at_checkpoints())
                event = self._judged(event)
            happened.append(event)
        return happened

    def _judged(self, event: events.TorchrunExited) -> events.TorchrunExited:
        local = self._node.local
        code = event.code if event.code is not None or local is None else local.ranks_say(self._seen.exits)
        return event._replace(code=code, completed=self._seen.completed)

    def _beat(self) -> None:
        local = self._node.local
        self._heartbeat.beat(
            attempt=self._role.number,
            phase=self._role.phase,
            ranks=self._seen.states,
            torchrun=local.torchrun if local is not None else None,
            holder=local.holder if local is not None else None,
            disk_free=self._seen.disk_free,
            rss=self._seen.rss,
        )


def alert_watch(
    layout: RunLayout,
    plan: LaunchPlan,
    name: str,
    journal: PatientJournalWriter,
    handover: Handover,
    session: int,
) -> AlertWatch | None:
    """Return the watch that sends the run's alerts; None if it has none, or another node leads."""
    if plan.alerts is None or plan.nodes[0].name != name:
        return None
    from torchdeck.agent.alerts.alert_watch import AlertWatch

    return AlertWatch(layout, plan, plan.alerts, name, journal, handover, session)
