"""Fold of the journals: ranks that make the others wait."""

from __future__ import annotations

from torchdeck.contract.journal import Event
from torchdeck.runs.replay import fields as read
from torchdeck.runs.run_state import Straggler


class StragglersSeen:
    """Stragglers of a run's newest attempt that reported any."""

    def __init__(self) -> None:
        self._attempt = 0
        self._standing: tuple[Straggler, ...] = ()

    def of(self, attempt: int | None) -> tuple[Straggler, ...]:
        """Return those of `attempt` that were not reported to be over."""
        return self._standing if attempt == self._attempt else ()

    def take(self, event: Event) -> None:
        """Record that ranks make the others wait, or do not any more; a later report replaces it."""
        if event.name == "straggler_over":
            self._standing = ()
            return
        self._attempt = read.whole(event.fields, "attempt") or 0
        ranks = tuple(rank for rank in read.wholes(event.fields, "ranks") if rank >= 0)
        straggler = Straggler(
            ranks,
            read.number(event.fields, "share") or 0.0,
            read.number(event.fields, "since"),
            read.whole(event.fields, "step"),
            read.text(event.fields, "detail"),
            read.texts(event.fields, "differs"),
        )
        self._standing = (straggler,) if ranks else ()
