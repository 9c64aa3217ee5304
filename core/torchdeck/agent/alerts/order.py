"""Order to deliver one alert, on standard input of the process that delivers it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torchdeck.agent.alerts.message import Message
from torchdeck.contract.plan.alert_plan import AlertTarget

DELAYS = (2.0, 8.0, 30.0)
"""Seconds before each retry."""


class Order(NamedTuple):
    """One alert to deliver."""

    journal: str
    """Path of the journal of deliveries."""
    key: str
    """Identity of the alert."""
    targets: tuple[AlertTarget, ...]
    message: Message
    secrets: Mapping[str, str]
    delays: Sequence[float] = DELAYS

    def line(self) -> bytes:
        """Return it as JSON."""
        value = {
            **self._asdict(),
            "targets": [dataclasses.asdict(target) for target in self.targets],
            "message": self.message._asdict(),
            "secrets": dict(self.secrets),
        }
        return json.dumps(value).encode("ascii") + b"\n"


def order_from(line: bytes) -> Order:
    """Return the order in a line. Raises ValueError, KeyError or TypeError if it is none."""
    value: dict[str, Any] = json.loads(line)
    targets = tuple(AlertTarget(**{**each, "to": tuple(each["to"])}) for each in value["targets"])
    return Order(**{**value, "targets": targets, "message": Message(**value["message"])})
