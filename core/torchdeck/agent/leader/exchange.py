"""Messages of one side of a connection, delivered once each and in order. Pure.

Connections break, and either process may be restarted. Each process numbers its messages; on every
connect each reports the last number it received, and gets what it lacks of the current attempt.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Entry(NamedTuple):
    """One sent message."""

    number: int
    attempt: int
    message: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {"n": self.number, "a": self.attempt, "m": self.message}


class Exchange:
    """One side of the exchange with one other process."""

    def __init__(self, incarnation: str) -> None:
        """`incarnation` names this process among all that ever spoke for its node."""
        self._incarnation = incarnation
        self._told: list[Entry] = []
        self._count = 0
        self._peer = ""
        self._heard = 0
        self._acknowledged = 0

    @property
    def settled(self) -> bool:
        """The other side has heard all."""
        return self._acknowledged >= self._count

    def tell(self, attempt: int, message: dict[str, Any]) -> dict[str, Any]:
        """Number a message about `attempt`, and keep it; returns what is sent now."""
        self._count += 1
        entry = Entry(self._count, attempt, message)
        self._told.append(entry)
        return entry.to_json()

    def forget_before(self, attempt: int) -> None:
        """Keep nothing of attempts before this one, nor of what preceded the first."""
        self._told = [entry for entry in self._told if entry.attempt >= attempt]

    def forget(self, *names: str) -> None:
        """Drop messages of these kinds: they are not worth repeating."""
        self._told = [entry for entry in self._told if entry.message.get("is") not in names]

    def greeting(self) -> dict[str, Any]:
        """The first message on every connection."""
        return {"who": self._incarnation, "peer": self._peer, "heard": self._heard}

    def greeted(self, greeting: dict[str, Any]) -> list[dict[str, Any]]:
        """The other side's greeting; returns what it has not heard."""
        who, peer, heard = greeting.get("who"), greeting.get("peer"), greeting.get("heard")
        if not isinstance(who, str) or type(heard) is not int:
            raise ValueError("it does not say who it is and what it heard")
        if who != self._peer:
            self._peer, self._heard = who, 0
        known = heard if peer == self._incarnation else 0
        self.acknowledged(known)
        return [entry.to_json() for entry in self._told if entry.number > known]

    def take(self, value: dict[str, Any]) -> Entry | None:
        """A message that came; None when it came before."""
        number, attempt, message = value.get("n"), value.get("a"), value.get("m")
        if type(number) is not int or type(attempt) is not int or not isinstance(message, dict):
            raise ValueError("it is no numbered message")
        if number <= self._heard:
            return None
        self._heard = number
        return Entry(number, attempt, message)

    def acknowledgement(self) -> dict[str, Any]:
        """That everything so far has come."""
        return {"ack": self._heard}

    def acknowledged(self, number: object) -> None:
        """The other side has heard everything up to `number`."""
        if type(number) is int:
            self._acknowledged = max(self._acknowledged, min(number, self._count))
