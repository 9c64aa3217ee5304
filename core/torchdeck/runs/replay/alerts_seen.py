"""Alerts of a run and their delivery, as its journals report them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torchdeck.contract.journal import Event
from torchdeck.runs.replay import typed
from torchdeck.shown_text import shown_line

MOST = 1000
"""Alerts that are remembered; a node can write any number."""


@dataclass(frozen=True)
class AlertDelivery:
    """Delivery of an alert to one target."""

    target: str
    """Such as `slack`."""
    state: str
    """`sent`, `failed` or `pending`."""
    why: str = ""
    """Why it failed."""
    tries: int = 0


@dataclass(frozen=True)
class AlertView:
    """One alert."""

    event: str
    """Such as `failed`."""
    title: str
    time: float
    """Seconds since the epoch, on the clock of the leader's node."""
    deliveries: tuple[AlertDelivery, ...]

    @property
    def has_failed(self) -> bool:
        """Return whether it did not reach a target."""
        return any(each.state == "failed" for each in self.deliveries)

    @property
    def sentence(self) -> str:
        """Return `quickstart failed: sent to slack; email failed after 4 tries: …`."""
        sent = [each.target for each in self.deliveries if each.state == "sent"]
        parts = [f"sent to {', '.join(sent)}"] if sent else []
        for each in self.deliveries:
            if each.state == "failed":
                tries = f" after {each.tries} tries" if each.tries > 1 else ""
                parts.append(f"{each.target} failed{tries}: {each.why}")
        pending = [each.target for each in self.deliveries if each.state == "pending"]
        parts += [f"no outcome of {', '.join(pending)} yet"] if pending else []
        return shown_line(f"{self.title}: {'; '.join(parts)}")


class AlertsSeen:
    """Fold of the events `alert`, `alert_sent` and `alert_failed`, in any order."""

    def __init__(self) -> None:
        self._alerts: dict[tuple[int, str], Event] = {}
        self._outcomes: dict[tuple[str, str], list[Event]] = {}
        self._counts: dict[str, int] = {}

    def take(self, event: Event) -> None:
        """Process an event; others are ignored."""
        key = typed.text(event.fields, "key")
        if event.name == "alert" and len(self._alerts) < MOST:
            number = self._counts[key] = self._counts.get(key, 0) + 1
            self._alerts[number, key] = event
        elif event.name in ("alert_sent", "alert_failed") and len(self._outcomes) < MOST:
            self._outcomes.setdefault((key, typed.text(event.fields, "target")), []).append(event)

    @property
    def alerts(self) -> tuple[AlertView, ...]:
        """Return all alerts, oldest first."""
        found = []
        for (number, key), event in self._alerts.items():
            title, problem = typed.text(event.fields, "title"), typed.text(event.fields, "why")
            deliveries = tuple(
                AlertDelivery(target, "failed", problem) if problem else self._delivery(key, target, number)
                for target in typed.texts(event.fields, "targets")
            )
            happened = typed.moment(event.fields, "happened") or event.time
            found.append(AlertView(typed.text(event.fields, "alert"), title, happened, deliveries))
        return tuple(sorted(found, key=lambda alert: alert.time))

    def _delivery(self, key: str, target: str, number: int) -> AlertDelivery:
        outcomes = self._outcomes.get((key, target), [])
        if len(outcomes) < number:  # a resumed run can have the same alert again
            return AlertDelivery(target, "pending")
        fields = outcomes[number - 1].fields
        found = AlertDelivery(target, "sent", tries=typed.whole(fields, "tries") or 0)
        if outcomes[number - 1].name == "alert_sent":
            return found
        return replace(found, state="failed", why=typed.text(fields, "why", "unknown"))
