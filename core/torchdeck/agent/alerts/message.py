"""Text of an alert, for people, and its parts, for templates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from torchdeck.agent.alerts.decider import Alert, first_line

MASK = "***"
"""In place of a secret."""
SHORTEST_PART = 12
"""Characters of a part of an address, such as a token in its path; shorter ones are words."""
_AFTER_HOST = re.compile(r"[a-z]+://[^/?#]*(.*)", re.DOTALL)
_SEPARATORS = re.compile(r"[/?&=#]")
SHORTEST_SECRET = 4
"""Characters; a shorter value would mask words that are no secret."""


class RunFacts(NamedTuple):
    """State of the run at an alert."""

    name: str
    run: str
    """The run's id; empty for a test."""
    host: str
    state: str
    step: int | None = None
    total: int | None = None
    loss: float | None = None
    loss_step: int | None = None


class Message(NamedTuple):
    """An alert in words; the fields are those of templates."""

    event: str
    title: str
    text: str
    """Several lines, without the title."""
    name: str
    run: str
    host: str
    state: str
    step: str
    """Empty if unknown; so is `loss`."""
    loss: str
    error: str

    def masked(self, secrets: Mapping[str, str]) -> Message:
        """Return the message without the values of secrets, which an error can quote."""
        return Message(*(without_secrets(part, secrets) for part in self))


def message_of(alert: Alert, facts: RunFacts) -> Message:
    """Return the words for an alert."""
    step = "" if facts.step is None else str(facts.step)
    loss = "" if facts.loss is None else f"{facts.loss:.5g}"
    lines = [alert.error] if alert.error else []
    lines.append(f"State: {facts.state}")
    lines += _progress(facts, step, loss)
    lines.append(f"Host: {facts.host}")
    if facts.run:
        lines.append(f"Run: {facts.run}")
    if alert.held_back:
        lines.append(f"Not reported since the last such message: {alert.held_back}")
    return Message(
        event=alert.event.value,
        title=first_line(f"{facts.name} {alert.what}"),
        text="\n".join(lines),
        name=facts.name,
        run=facts.run,
        host=facts.host,
        state=facts.state,
        step=step,
        loss=loss,
        error=alert.error,
    )


def _progress(facts: RunFacts, step: str, loss: str) -> list[str]:
    parts = []
    if step:
        parts.append(f"Step {step}" if facts.total is None else f"Step {step} of {facts.total}")
    if loss:
        behind = "" if facts.loss_step in (None, facts.step) else f" at step {facts.loss_step}"
        parts.append(f"loss {loss}{behind}")
    text = ", ".join(parts)
    return [text[0].upper() + text[1:]] if text else []


def without_secrets(text: str, secrets: Mapping[str, str], shortest: int = SHORTEST_PART) -> str:
    """Return `text` with each value of `secrets` masked, and the parts of those that are addresses.

    Args:
        text: may quote a secret.
        secrets: name → value.
        shortest: characters of the shortest part of an address that is masked by itself.
    """
    for part in sorted(_parts_of(secrets.values(), shortest), key=len, reverse=True):
        text = text.replace(part, MASK)
    return text


def _parts_of(values: Iterable[str], shortest: int) -> Iterator[str]:
    for value in map(str.strip, values):
        path = _AFTER_HOST.match(value)
        whole = (value,) if path is None else (value, path[1])
        yield from (part for part in whole if len(part) >= SHORTEST_SECRET)
        if path is not None:
            yield from (part for part in _SEPARATORS.split(path[1]) if len(part) >= shortest)
