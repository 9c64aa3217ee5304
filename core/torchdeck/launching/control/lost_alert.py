"""Alert on a run that is given up: its leader, which sends all other alerts, cannot report this one."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Mapping
from typing import Any

from torchdeck.agent.alerts.decider import AlertDecider
from torchdeck.agent.alerts.message import RunFacts
from torchdeck.agent.alerts.sending import Sending
from torchdeck.contract.journal import Event, JournalWriter
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan


def send_lost_alert(
    layout: RunLayout,
    plan: LaunchPlan,
    secrets: Mapping[str, str],
    journal: JournalWriter,
    lost: Mapping[str, Any],
) -> None:
    """Send an alert if the plan has any; an error is logged.

    Args:
        layout: the run.
        plan: its plan.
        secrets: values of its secrets, as far as this controller knows them.
        journal: the controller's.
        lost: fields of the event `lost`.
    """
    if plan.alerts is None:
        return
    try:
        decider = AlertDecider(plan.alerts)
        sending = Sending(plan.alerts, secrets, journal, layout.alerts, layout.controller_log)
        for alert in decider.take(Event("lost", time.time(), time.monotonic(), lost)):
            sending.send(alert, RunFacts(plan.name, layout.root.name, socket.gethostname(), decider.state))
    except Exception as error:  # noqa: BLE001 - the nodes of the lost run matter more
        print(f"torchdeck: the alert on the lost run failed: {error!r}", file=sys.stderr, flush=True)
