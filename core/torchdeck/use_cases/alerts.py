"""Sends a test alert to the targets of a run file, from this machine."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.contract.refusal import Refusal

if TYPE_CHECKING:
    from torchdeck.agent.alerts.delivery import Delivered
    from torchdeck.config.loader import LoadedConfig


class NoAlertsError(Refusal):
    """A run file names no target for alerts."""

    is_usage = True
    page = "alerts"


def send_test_alert(
    loaded: LoadedConfig, home: Path, secrets: Mapping[str, str] | None = None, *, trust: bool = False
) -> list[Delivered]:
    """Return the outcome for each target, after one try each.

    Args:
        loaded: the run file.
        home: TORCHDECK_HOME, which lists the secrets in the keyring.
        secrets: values of secrets that are neither in the environment nor in the keyring.
        trust: trust the run file first, if it sends secrets to a host that it names.

    Raises:
        NotTrustedError: the run file sends secrets to a host that it names, and is not trusted.
        NoAlertsError: there is no target.
        MissingSecretError: a secret has no value.
    """
    from torchdeck.agent.alerts.decider import Alert
    from torchdeck.agent.alerts.delivery import deliver
    from torchdeck.agent.alerts.message import RunFacts, message_of
    from torchdeck.contract.plan.alert_plan import AlertEvent
    from torchdeck.launching.gate import Gate, NotTrustedError

    config = loaded.config
    if not config.alerts.targets:
        raise NoAlertsError(
            "the run file names no target for alerts", fix="set alerts.ntfy or another target", key="alerts"
        )
    if trust:
        Gate(home).trust(config, loaded.files)
    if held := Gate(home).held_alerts(config, loaded.files):
        raise NotTrustedError(held)
    values = _secrets(config.alerts.secrets, {**os.environ, **(secrets or {})}, home)
    alert = Alert(AlertEvent.TEST, "test", 0.0, "can send alerts")
    message = message_of(alert, RunFacts(config.name, "", socket.gethostname(), "no run, this is a test"))
    found: list[Delivered] = []
    deliver(config.alerts.targets, message, values, found.append, delays=())
    kinds = [target.kind for target in config.alerts.targets]
    return sorted(found, key=lambda each: kinds.index(each.target))


def _secrets(names: tuple[str, ...], environ: Mapping[str, str], home: Path) -> dict[str, str]:
    from torchdeck.launching.control.run_secrets import secret_values

    return dict(secret_values(frozenset(names), environ, home, source="alerts", required=True))
