"""Summary of the traffic of one step."""

from __future__ import annotations

from dataclasses import dataclass

from torchdeck.plan.communication import Collective, Communication


@dataclass(frozen=True)
class Traffic:
    """Traffic of one optimizer step, in bytes."""

    collectives: tuple[Collective, ...]
    sent: int
    """Bytes sent by each rank."""
    between: int
    """Bytes from node to node, by all ranks together."""
    crossing: int
    """Number of ranks that send to other nodes."""
    seconds: float | None
    """Minimum time that links are busy if nothing overlaps with computing; None: a speed is unknown."""


def make_traffic(communication: Communication) -> Traffic:
    """Return the sums of `communication`."""
    return Traffic(
        collectives=communication.collectives,
        sent=communication.sent,
        between=int(communication.between.sum()),
        crossing=int((communication.between > 0).sum()),
        seconds=communication.seconds,
    )
