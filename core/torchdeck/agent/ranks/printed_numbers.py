"""Numbers from what all ranks of a node print, within a budget of time: the agent has other things to do."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic

from torchdeck.agent.ranks.stdout_series import StdoutSeries

LOOK_BUDGET = 0.05
"""Seconds of parsing per look, shared by the ranks."""
END_BUDGET = 0.5
"""Seconds for what is left to be parsed once the ranks have ended."""
LAST_BUDGET = 5.0
"""Seconds for the last lines after that, which take milliseconds unless the machine is very busy."""
PATIENCE = 10.0
"""Seconds that the parser may be behind before it leaves lines out. A burst is parsed whole."""


class PrintedNumbers:
    """The ranks' stdout, followed in turn. Logs are never touched, whatever is left out of the numbers."""

    def __init__(self, ranks: Mapping[int, StdoutSeries]) -> None:
        self._ranks = dict(ranks)
        self._behind: dict[int, float] = {}
        """rank → monotonic seconds since when lines wait to be parsed."""
        self._noted: set[int] = set()

    @property
    def behind(self) -> bool:
        """Some lines have not been parsed yet."""
        return bool(self._behind)

    def look(self, budget: float = LOOK_BUDGET) -> list[int]:
        """Parse what was printed; ranks of which lines are left out for the first time."""
        begun = monotonic()
        self._follow(begun, begun + budget)
        late = {rank for rank, since in self._behind.items() if begun - since >= PATIENCE}
        return self._leave_out(late)

    def end(self) -> list[int]:
        """Parse the last of it; otherwise as `look`. The last lines are parsed in any case."""
        begun = monotonic()
        self._follow(begun, begun + END_BUDGET)
        found = self._leave_out(set(self._behind))
        self._follow(begun, monotonic() + LAST_BUDGET)
        return found

    def _follow(self, now: float, until: float) -> None:
        """Each rank has an equal share of the time; what one does not need is the others'."""
        left = len(self._ranks)
        for rank, series in self._ranks.items():
            clock = monotonic()
            if series.follow(clock + max(0.0, until - clock) / left):
                self._behind.setdefault(rank, now)
            else:
                self._behind.pop(rank, None)
            left -= 1

    def _leave_out(self, ranks: set[int]) -> list[int]:
        skipped = sorted(rank for rank in ranks if self._ranks[rank].skip() and rank not in self._noted)
        self._noted.update(skipped)
        return skipped
