"""Requests in a run's journals: which were forwarded, and which an agent has taken."""

from __future__ import annotations

from torchdeck.contract.journal import Event
from torchdeck.runs.replay import fields as read


class RequestsSeen:
    """Requests in a run's history; forwarding and taking are recorded in different journals."""

    def __init__(self) -> None:
        self._forwarded: dict[str, str] = {}
        self._taken: set[str] = set()

    @property
    def waiting(self) -> tuple[str, ...]:
        """Kinds of those that the controller forwarded and no agent has taken yet."""
        return tuple(kind for id_, kind in self._forwarded.items() if id_ not in self._taken)

    def has_taken(self, request_id: str) -> bool:
        """Return whether an agent has taken it."""
        return request_id in self._taken

    def forwarded(self, event: Event) -> None:
        self._forwarded[read.text(event.fields, "id")] = read.text(event.fields, "kind")

    def taken(self, event: Event) -> None:
        self._taken.add(read.text(event.fields, "id"))
