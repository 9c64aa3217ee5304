"""Fold of the journals: ranks that make the others wait."""

from __future__ import annotations

from torchdeck.contract.journal import Event
from torchdeck.runs.replay import typed
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
        self._attempt = typed.whole(event.fields, "attempt") or 0
        ranks = tuple(rank for rank in typed.wholes(event.fields, "ranks") if rank >= 0)
        straggler = Straggler(
            ranks,
            typed.number(event.fields, "share") or 0.0,
            typed.number(event.fields, "since"),
            typed.whole(event.fields, "step"),
            typed.text(event.fields, "detail"),
            typed.texts(event.fields, "differs"),
        )
        self._standing = (straggler,) if ranks else ()
