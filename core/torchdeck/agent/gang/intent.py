"""The wish that a run stops."""

from __future__ import annotations

from typing import NamedTuple

from torchdeck.agent.gang.events import StopRequested


class Intent(NamedTuple):
    """A wish to stop. It never goes away, it only gets more urgent."""

    kind: str
    why: str
    detail: str

    @classmethod
    def after(cls, before: Intent | None, event: StopRequested) -> Intent:
        """The wish with `event` heard too; `before` itself where that is as urgent.

        Who wished first stays named.
        """
        if before is None:
            return cls(event.kind, event.why, event.detail)
        if before.kind == "now" or event.kind != "now":
            return before
        return before._replace(kind=event.kind)
