"""What a step sends where, summed up."""

from __future__ import annotations

from dataclasses import dataclass

from torchdeck.plan.communication import Collective, Communication


@dataclass(frozen=True)
class Traffic:
    """One optimizer step's exchanges, in bytes."""

    collectives: tuple[Collective, ...]
    sent: int
    """By each rank."""
    between: int
    """From node to node, by all ranks together."""
    crossing: int
    """Ranks that send to other nodes."""
    seconds: float | None
    """How long links are busy at least where nothing hides behind computing; None: a speed is unknown."""


def make_traffic(communication: Communication) -> Traffic:
    """The sums of `communication`."""
    return Traffic(
        collectives=communication.collectives,
        sent=communication.sent,
        between=int(communication.between.sum()),
        crossing=int((communication.between > 0).sum()),
        seconds=communication.seconds,
    )
