"""Alerts of a run file, as the leader's agent reads them."""

from __future__ import annotations

from torchdeck.config.schema import RunConfig
from torchdeck.contract.plan.alert_plan import AlertPlan


def alert_plan(config: RunConfig) -> AlertPlan | None:
    """Return which events are reported, and to whom; None if nothing is sent."""
    alerts = config.alerts
    if not alerts.targets or not alerts.on:
        return None
    return AlertPlan(
        events=tuple(alerts.on),
        targets=alerts.targets,
        interval=float(alerts.interval),
        metric=config.checkpoint.best_metric,
        lowest=config.checkpoint.best_is == "lowest",
        no_best=alerts.no_best,
        late_factor=float(alerts.late_factor),
        end_by=alerts.end_by_time,
        queued=float(alerts.queued),
        free_bytes=alerts.free_disk,
    )
