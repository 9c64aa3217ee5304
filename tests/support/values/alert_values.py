"""Alerts and their rules, made by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

from torchdeck.agent.alerts.message import Message
from torchdeck.config.alerts.alert_table import EVENTS
from torchdeck.contract.plan.alert_plan import AlertPlan, AlertTarget

RULES = AlertPlan(
    events=EVENTS,
    targets=(),
    interval=600.0,
    metric="validation_loss",
    lowest=True,
    no_best=3,
    late_factor=1.5,
    end_by=None,
    queued=3600.0,
    free_bytes=2**30,
)
MESSAGE = Message(
    event="failed",
    title="tiny failed",
    text='ValueError: "no" & <nothing>\nState: FAILED',
    name="tiny",
    run="20270101T000000Z-tiny-abcdef",
    host="gpu1",
    state="FAILED",
    step="12",
    loss="2.31",
    error='ValueError: "no" & <nothing>',
)


def rules(*targets: AlertTarget, **changes: Any) -> AlertPlan:
    """Rules with these targets and changes."""
    return dataclasses.replace(RULES, targets=targets, **changes)
