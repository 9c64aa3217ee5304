"""Starts the process that delivers an alert, and journals the alert."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchdeck.agent.alerts.decider import Alert
from torchdeck.agent.alerts.message import RunFacts, message_of
from torchdeck.agent.alerts.order import Order
from torchdeck.agent.processes.detached_process import DetachedProcess, start_detached
from torchdeck.contract.journal import JournalWriter
from torchdeck.contract.plan.alert_plan import AlertPlan
from torchdeck.contract.processes import without_run_variables

_SENDER = Path(__file__).resolve().parent / "sender.py"


class Sending:
    """Sends the alerts of one run.

    Attributes:
        running: processes that deliver; ended ones are removed by `look`.
    """

    def __init__(
        self,
        rules: AlertPlan,
        secrets: Mapping[str, str],
        journal: JournalWriter,
        outcomes: Path,
        log: Path,
    ) -> None:
        """Create it; nothing is started yet.

        Args:
            rules: alerts of the run.
            secrets: values of secrets; those that no target needs are masked in messages only.
            journal: gets the alert.
            outcomes: journal of deliveries.
            log: standard error of the processes that deliver.
        """
        self.running: list[DetachedProcess] = []
        self._rules, self._secrets = rules, dict(secrets)
        self._journal, self._outcomes, self._log = journal, outcomes, log

    def send(self, alert: Alert, facts: RunFacts) -> None:
        """Start the delivery, and journal the alert afterwards: two are better than none."""
        message = message_of(alert, facts).masked(self._secrets)
        wanted = {name: self._secrets[name] for name in self._rules.secrets if name in self._secrets}
        order = Order(str(self._outcomes), alert.key, self._rules.targets, message, wanted)
        noted: dict[str, Any] = {
            "alert": alert.event,
            "key": alert.key,
            "title": message.title,
            "targets": [target.kind for target in self._rules.targets],
        }
        argv = [sys.executable, "-I", "-B", str(_SENDER)]
        try:
            started = start_detached(argv, without_run_variables(os.environ), self._log, order.line())
        except OSError as error:
            self._journal.append("alert", **noted, why=f"no process can be started: {error.strerror}")
            return
        self.running.append(started)
        self._journal.append("alert", **noted, happened=alert.time)

    def look(self) -> bool:
        """Return whether a delivery still runs."""
        self.running = [process for process in self.running if process.exit_code() is None]
        return bool(self.running)
