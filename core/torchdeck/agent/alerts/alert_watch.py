"""Alerts as part of the leader's agent: reads what is new, decides, and starts a process that delivers."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Mapping

from torchdeck.agent.alerts.decider import Alert, AlertDecider, Sent
from torchdeck.agent.alerts.message import RunFacts
from torchdeck.agent.alerts.metric_rows import MetricRow, MetricRows
from torchdeck.agent.alerts.sending import Sending
from torchdeck.agent.attempt.handover import Handover
from torchdeck.agent.ranks.rank_watch import RankState
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.journal import Event, JournalReader, PatientJournalWriter
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.progress import read_progress
from torchdeck.contract.metrics.script_state import read_script_state
from torchdeck.contract.plan.alert_plan import AlertEvent, AlertPlan
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.rank_layout import RankLayout
from torchdeck.contract.waiting import wait_for
from torchdeck.trainers.metric_roles import LOSS, VALIDATION_LOSS, Roles

LINGER = 5.0
"""Seconds that an ended agent waits for deliveries, so that their outcome is mirrored; they need not it."""
TICK = 0.05


class AlertWatch:
    """Watches one session of a run on the leader's node. No call raises."""

    def __init__(
        self,
        layout: RunLayout,
        plan: LaunchPlan,
        rules: AlertPlan,
        node: str,
        journal: PatientJournalWriter,
        handover: Handover,
        session: int,
    ) -> None:
        """Create a watch; nothing is read before the first look.

        Args:
            layout: the run.
            plan: its plan.
            rules: its alerts.
            node: the leader's node, which this is.
            journal: the agent's journal, in which alerts are noted.
            handover: has the values of secrets.
            session: number of times the run had finished when it was resumed.
        """
        self._layout, self._plan, self._rules, self._name = layout, plan, rules, node
        self._journal, self._session = journal, session
        self._events = JournalReader(layout.node(node).journal, limit=None)
        self._decider = AlertDecider(rules)
        files = layout.node(node)
        self._sending = Sending(rules, handover.secrets, journal, files.alerts, files.log)
        self._roles = Roles(plan.metric_names)
        self._in_session = False
        self._is_first = True
        self._attempt = 0
        self._rank = min((each.rank for each in plan.ranks if each.node == node), default=0)
        self._rows: MetricRows | None = None
        self._loss: MetricRow | None = None
        self._progress: tuple[int, int | None] | None = None
        self._failure = ""

    def look(self, ranks: Mapping[int, RankState], disk_free: int) -> None:
        """Decide on what is new, once a second; start deliveries.

        Args:
            ranks: ranks of this node by number.
            disk_free: bytes free for the run directory; -1 if unknown.
        """
        try:
            self._look(ranks, disk_free)
        except Exception as error:  # noqa: BLE001 - an alert is never worth a run
            if repr(error) != self._failure:
                self._failure = repr(error)
                print(f"alerts: {error!r}", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Report the end of the run, and give deliveries a moment; those that take longer go on alone."""
        self.look({}, -1)
        wait_for(lambda: not self._sending.look(), LINGER, TICK)

    def _look(self, ranks: Mapping[int, RankState], disk_free: int) -> None:
        self._sending.look()
        events = [event for event in self._events.read_new() if self._is_of_session(event)]
        if self._is_first:  # what an earlier agent sent comes after what it was sent for
            self._is_first = False
            self._decider.know(_sent(events))
        found = [alert for event in events for alert in self._take(event)]
        self._rank = min(ranks, default=self._rank)
        found += self._take_rows()
        found += self._take_progress(ranks)
        now = time.time()
        found += [*self._decider.disk(disk_free, now), *self._decider.tick(now)]
        for alert in sorted(found, key=lambda each: each.time):
            self._sending.send(alert, self._facts())

    def _is_of_session(self, event: Event) -> bool:
        if event.name == "agent_started" and event.fields.get("life") == self._session:
            self._in_session = True
        return self._in_session

    def _take(self, event: Event) -> list[Alert]:
        attempt = event.fields.get("attempt")
        if event.name == "attempt_started" and isinstance(attempt, int) and attempt != self._attempt:
            self._attempt, self._rows = attempt, None
        if event.name == "attempt_ended":  # no one watches its ranks any more
            last = _last_progress(self._layout.attempt(self._attempt).rank(self._rank))
            self._progress = last or self._progress
        return self._decider.take(event)

    def _take_rows(self) -> list[Alert]:
        if not self._attempt:
            return []
        if self._rows is None:
            folder = self._layout.attempt(self._attempt).rank(self._rank).metrics
            self._rows = MetricRows(folder, self._role_of)
        found = []
        for row in self._rows.look():
            if row.role == LOSS:
                self._loss = row
            best = self._rules.metric in (row.role, row.name)
            found += self._decider.row(row.role, row.step, row.value, row.time, best=best)
        return found

    def _role_of(self, name: str) -> str | None:
        role = self._roles.role_of(name)
        if role in (LOSS, VALIDATION_LOSS):
            return role
        return role or name if self._rules.metric in (role, name) else None

    def _take_progress(self, ranks: Mapping[int, RankState]) -> list[Alert]:
        furthest = max(ranks.values(), key=lambda state: state.step, default=None)
        if furthest is None:
            return []
        if furthest.step or furthest.total:
            self._progress = (furthest.step, furthest.total)
        before = self._decider.expected
        found = self._decider.progress(furthest.step, furthest.total, time.time())
        expected = self._decider.expected
        if expected is not None and expected != before:
            self._journal.append("expected_end", durable=False, **expected._asdict())
        return found

    def _facts(self) -> RunFacts:
        host = socket.gethostname()
        step, total = self._progress or (None, None)
        loss = self._loss
        return RunFacts(
            name=self._plan.name,
            run=self._layout.root.name,
            host=host if self._name in (LOCALHOST, host) else f"{self._name} ({host})",
            state=self._decider.state,
            step=step,
            total=total,
            loss=None if loss is None else loss.value,
            loss_step=None if loss is None else loss.step,
        )


def _last_progress(rank: RankLayout) -> tuple[int, int | None] | None:
    """Return the step that an ended rank had reached, and the total; None if it counted none."""
    progress = read_progress(rank.progress)
    if progress is not None and progress.step:
        return progress.step, progress.total
    script = read_script_state(rank.script)
    return None if script is None or script.step is None else (script.step, script.total)


def _sent(events: list[Event]) -> list[Sent]:
    found = []
    for event in events:
        name, key, when = (event.fields.get(field) for field in ("alert", "key", "happened"))
        if event.name == "alert" and isinstance(key, str):
            kind = AlertEvent.read(name, AlertEvent.TEST)
            found.append(Sent(kind, key, float(when) if isinstance(when, (int, float)) else event.time))
    return found
