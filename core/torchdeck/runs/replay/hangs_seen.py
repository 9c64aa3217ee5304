"""Journal events on hung ranks."""

from __future__ import annotations

from collections.abc import Iterable

from torchdeck.contract.journal import Event
from torchdeck.runs.replay import fields as read
from torchdeck.runs.state import Hang


class HangsSeen:
    """Hung ranks in a run's history, in the run's current session."""

    def __init__(self) -> None:
        self._by_rank: dict[int, dict[int, Hang]] = {}
        """rank → attempt → hang."""

    def of(self, attempt: int, exited: Iterable[int]) -> dict[int, Hang]:
        """Return rank → its hang in `attempt`, without ranks that have exited."""
        gone = set(exited)
        return {
            rank: hangs[attempt]
            for rank, hangs in self._by_rank.items()
            if attempt in hangs and rank not in gone
        }

    def flagged(self, event: Event, current: int) -> None:
        """Record a hung rank: in the attempt that `event` names, else in the `current` one."""
        rank = read.whole(event.fields, "rank")
        number = read.whole(event.fields, "attempt") or current
        if rank is not None:
            self._by_rank.setdefault(rank, {})[number] = Hang(
                rank,
                read.text(event.fields, "phase"),
                read.whole(event.fields, "step"),
                read.number(event.fields, "still"),
                read.number(event.fields, "limit"),
                read.text(event.fields, "detail"),
            )

    def over(self, event: Event) -> None:
        """Record that the rank makes progress again."""
        self._by_rank.pop(read.whole(event.fields, "rank") or 0, None)
