"""The part an agent has in its gang: alone, the leader, or a follower."""

from __future__ import annotations

from typing import Protocol

from torchdeck.agent.gang import commands, events
from torchdeck.agent.gang.gang import Gang
from torchdeck.agent.gang.recovered_state import RecoveredState
from torchdeck.contract.run_states import GangPhase


class Role(Protocol):
    """Events of this node in, what is to be done on this node out."""

    @property
    def phase(self) -> GangPhase:
        """As Gang.phase; a follower says whether it hears its leader."""

    @property
    def number(self) -> int:
        """The current attempt, 0 before the first."""

    @property
    def deadline(self) -> float | None:
        """Monotonic seconds at which something is due; None when only events bring news."""

    @property
    def leads(self) -> bool:
        """It decides, and journals what was decided."""

    @property
    def descriptors(self) -> list[tuple[int, int]]:
        """(descriptor, events) to poll for."""

    def resume(self, recovered: RecoveredState, now: float) -> list[commands.Command]:
        """Continue after the journal of an earlier agent."""

    def handle(self, event: events.Event, now: float) -> list[commands.Command]:
        """Take in one event of this node."""

    def exchange(self, now: float) -> list[commands.Command]:
        """Talk with the other nodes."""

    def close(self) -> None:
        """The run is over here."""


class Alone(Gang):
    """Gang of one node: no socket, no peer."""

    leads = True
    descriptors: list[tuple[int, int]] = []  # noqa: RUF012 - it never holds anything

    def exchange(self, now: float) -> list[commands.Command]:  # noqa: ARG002 - no one is there
        return []

    def close(self) -> None:
        """Nothing to close."""
