"""Check of the programs on this machine that alerts need."""

from __future__ import annotations

from collections.abc import Iterator

from torchdeck.agent.alerts.delivery import desktop_problem, find_sendmail
from torchdeck.contract.plan.alert_plan import AlertPlan, TargetKind
from torchdeck.plan.check import Check


def check_alerts(alerts: AlertPlan, node: str) -> Iterator[Check]:
    """Check that the desktop and the mail program are there, on the node that sends. Servers are not asked.

    Args:
        alerts: alerts of the plan.
        node: name of this machine in the plan.
    """
    kinds = {target.kind for target in alerts.targets}
    if TargetKind.EMAIL in kinds and find_sendmail() is None:
        wrong = "alerts cannot be mailed: there is no program sendmail"
        yield Check("alerts", "warning", node, wrong, "install one, such as that of msmtp-mta")
    problem = desktop_problem() if TargetKind.DESKTOP in kinds else ""
    if problem:
        wrong = f"alerts cannot be shown on the desktop: {problem}"
        yield Check("alerts", "warning", node, wrong, "use another target, or no alerts.desktop")
