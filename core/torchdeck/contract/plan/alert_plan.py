"""Alerts of a run as its plan has them. Standard library only, Python 3.10: nodes read it too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torchdeck.contract.run_states import TextEnum

SECRET = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""Reference to an environment variable in the text of a target."""


class AlertEvent(TextEnum):
    """Something that an alert reports."""

    ENDED = "ended"
    FAILED = "failed"
    HANG = "hang"
    NOT_FINITE = "not_finite"
    NO_BEST = "no_best"
    DISK = "disk"
    LATE = "late"
    QUEUED = "queued"
    TEST = "test"
    """Asked for by the user; not in any plan."""


class TargetKind(TextEnum):
    """Way in which an alert is delivered."""

    DESKTOP = "desktop"
    EMAIL = "email"
    NTFY = "ntfy"
    SLACK = "slack"
    DISCORD = "discord"
    TELEGRAM = "telegram"
    WEBHOOK = "webhook"


@dataclass(frozen=True)
class AlertTarget:
    """One target. Its texts have `${NAME}` in place of secrets, never their values."""

    kind: str
    """A `TargetKind`."""
    url: str = ""
    """Address of a webhook. Telegram: the bot's token."""
    to: tuple[str, ...] = ()
    """E-mail: addresses. Telegram: the chat."""
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    """Template of the body; empty: a JSON object with everything."""

    @property
    def secrets(self) -> frozenset[str]:
        """Return the names of environment variables that it refers to."""
        texts = (self.url, self.body, *self.to, *self.headers.values())
        return frozenset(name for text in texts for name in SECRET.findall(text))


@dataclass(frozen=True)
class AlertPlan:
    """Events that are reported, when, and to whom."""

    events: tuple[str, ...]
    """`AlertEvent`s."""
    targets: tuple[AlertTarget, ...]
    interval: float
    """Seconds between two alerts of one event."""
    metric: str
    """Metric whose best value counts."""
    lowest: bool
    """Whether its lowest value is best."""
    no_best: int
    """Evaluations without a new best."""
    late_factor: float
    end_by: float | None
    """Unix seconds; None: no time is given."""
    queued: float
    """Seconds."""
    free_bytes: int

    @property
    def secrets(self) -> frozenset[str]:
        """Return the names of environment variables whose values the leader's agent needs."""
        return frozenset().union(*(target.secrets for target in self.targets))


def alert_plan_from(value: Mapping[str, Any]) -> AlertPlan:
    """Return the plan from its JSON form. Raises KeyError or TypeError if it is not one."""
    targets = tuple(
        AlertTarget(**{**target, "to": tuple(target.get("to", ()))}) for target in value["targets"]
    )
    return AlertPlan(**{**value, "events": tuple(value["events"]), "targets": targets})
