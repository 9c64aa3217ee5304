"""What a run's journals say of ranks that stand still."""

from __future__ import annotations

from torchdeck.rundir.journal import Event
from torchdeck.runs import fields as read
from torchdeck.runs.state import AttemptView, Hang


class HangsSeen:
    """The part of a run's history that is about ranks standing still, in the run's current life."""

    def __init__(self) -> None:
        self._by_attempt_and_rank: dict[tuple[int, int], Hang] = {}

    def of(self, attempt: AttemptView) -> dict[int, Hang]:
        """rank → how it stands still in `attempt`; who has exited does so no more."""
        exited = {exit_.rank for exit_ in attempt.exits}
        return {
            rank: hang
            for (number, rank), hang in self._by_attempt_and_rank.items()
            if number == attempt.number and rank not in exited
        }

    def flagged(self, event: Event, current: int) -> None:
        """A rank stands still: in the attempt that `event` names, else in the `current` one."""
        rank = read.whole(event.fields, "rank")
        number = read.whole(event.fields, "attempt") or current
        if rank is not None:
            self._by_attempt_and_rank[number, rank] = Hang(
                rank,
                read.text(event.fields, "phase"),
                read.whole(event.fields, "step"),
                read.number(event.fields, "still"),
                read.number(event.fields, "limit"),
                read.text(event.fields, "detail"),
            )

    def over(self, event: Event) -> None:
        """The rank goes on."""
        rank = read.whole(event.fields, "rank") or 0
        for key in [key for key in self._by_attempt_and_rank if key[1] == rank]:
            del self._by_attempt_and_rank[key]
