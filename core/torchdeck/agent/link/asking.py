"""Requests of a controller to this node's agent, answered when the agent gets to them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.agent.attempt.handing_on import HandoverAsk, remove_unread

LIMIT = 5.0
"""Seconds in which an agent answers; it looks four times a second."""


class _Asked(NamedTuple):
    number: int
    until: float
    ask: HandoverAsk


class Asking:
    """Questions that are not answered yet."""

    def __init__(self, inbox: Path) -> None:
        remove_unread(inbox)  # of a link server that was killed while it asked
        self._inbox = inbox
        self._asked: list[_Asked] = []

    def __len__(self) -> int:
        return len(self._asked)

    def begin(self, number: int, now: float) -> None:
        """Ask for what the agent was handed; `number`: of the controller's call. Raises OSError."""
        self._asked.append(_Asked(number, now + LIMIT, HandoverAsk(self._inbox)))

    def take(self, now: float) -> list[tuple[int, Mapping[str, Any], bytes]]:
        """(number, fields, body) of what has been answered, or will not be any more."""
        found: list[tuple[int, Mapping[str, Any], bytes]] = []
        for asked in list(self._asked):
            line = asked.ask.read()
            if line is None and now < asked.until:
                continue
            error = {} if line is not None else {"error": f"the agent did not answer within {LIMIT:.0f} s"}
            found.append((asked.number, error, line or b""))
            asked.ask.close()
            self._asked.remove(asked)
        return found

    def close(self) -> None:
        """Ask no more."""
        for asked in self._asked:
            asked.ask.close()
        self._asked.clear()
