"""Late ranks of all nodes, the examination that follows, and the verdict. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torchdeck.agent.doctor.evidence import RankEvidence, Verdict
from torchdeck.agent.doctor.judge import UNREACHABLE, judge
from torchdeck.agent.gang import commands, events
from torchdeck.agent.gang.recovered_state import RecoveredState

ANSWER_LIMIT = 15.0
"""Seconds in which the nodes send their evidence; it takes some five."""
SOONEST, LATEST = 10.0, 60.0
"""Seconds until late ranks that do not hang are examined again: their last answers are no work then."""


class Judged(NamedTuple):
    """A verdict, and the examination it follows from."""

    verdict: Verdict
    examination: str
    ranks: tuple[int, ...]
    """All that were examined."""
    requests: tuple[str, ...]
    """Requests that it answers."""
    evidence: RankEvidence | None
    """If the ranks hang: on the rank to blame, else on the rank that is stalled for longest."""

    def announced(self, attempt: int) -> list[commands.Command]:
        """Return the commands that journal it."""
        verdict, found = self.verdict, self.evidence
        told: list[commands.Command] = [
            commands.AnnounceExamined(
                attempt, self.examination, request, verdict.sentence, verdict.kind, self.ranks
            )
            for request in self.requests
        ]
        if found is not None:
            hang = commands.AnnounceHang(
                *(attempt, found.rank, found.phase, found.step, found.still, found.limit),
                *(verdict.sentence, verdict.kind, verdict.ranks, verdict.place, self.examination),
            )
            told.append(hang)
        return told

    def flagged(self, attempt: int) -> events.HangFlagged | None:
        """Return the event for the gang; None if the ranks do not hang."""
        if self.evidence is None:
            return None
        return events.HangFlagged(attempt, self.verdict.rank, self.verdict.sentence)


class Hangs:
    """Hangs of one attempt.

    Attributes:
        announced: ranks that stand flagged.
    """

    def __init__(self) -> None:
        self.announced: tuple[int, ...] = ()
        self._requests: list[str] = []
        self._late: dict[str, tuple[int, ...]] = {}
        self._number = 0
        self._keeps = True
        """The last examination is kept; else the next one replaces its files."""
        self._evidence: dict[str, tuple[RankEvidence, ...]] = {}
        self._open: tuple[str, ...] = ()
        """Nodes whose evidence is awaited."""
        self._asked = 0.0
        self._due = 0.0

    def resume(self, recovered: RecoveredState) -> None:
        """Continue after an earlier agent; the next examination replaces none that it announced."""
        self.announced = tuple(sorted(recovered.hung))
        self._number = recovered.examination

    def late(self, node: str, ranks: tuple[int, ...]) -> tuple[int, ...]:
        """Take in which ranks of a node are late now; returns ranks whose hang is over."""
        self._late[node] = ranks
        if any(self._late.values()):
            return ()
        over, self.announced = self.announced, ()
        return over

    def ask(self, request: str) -> None:
        """Take in a person's request for stacks."""
        self._requests.append(request)

    def examine(self, nodes: Sequence[str], now: float) -> str:
        """Return the name of the examination to begin on `nodes` now; empty if there is none to begin."""
        late = any(self._late.values()) and not self.announced and now >= self._due
        if self._open or not nodes or not (late or self._requests):
            return ""
        if self._keeps:
            self._number += 1
        self._keeps = False
        self._open, self._asked = tuple(nodes), now
        self._evidence = {}
        return str(self._number)

    def examined(self, node: str, name: str, evidence: tuple[RankEvidence, ...]) -> None:
        """Take in the evidence of one node."""
        if name == str(self._number) and node in self._open:
            self._evidence[node] = evidence

    def judged(self, places: Sequence[str], now: float) -> Judged | None:
        """Return the verdict, once all evidence is there or time is up; None if no one is to know it.

        Args:
            places: the node of each rank, by the plan.
            now: monotonic seconds.
        """
        if not self._open or (len(self._evidence) < len(self._open) and now - self._asked < ANSWER_LIMIT):
            return None
        self._open = ()
        nodes = dict(enumerate(places))
        # under c10d torchrun numbers the nodes when they meet
        nodes |= {found.rank: node for node, evidence in self._evidence.items() for found in evidence}
        ranks = {found.rank: found for evidence in self._evidence.values() for found in evidence}
        late = [found for found in ranks.values() if found.still > found.limit and not found.ended]
        for rank, node in nodes.items():
            if rank not in ranks:
                silent = node not in self._evidence
                ranks[rank] = RankEvidence(rank, state=UNREACHABLE if silent else "")
        verdict = judge(dict(sorted(ranks.items())), nodes)
        to_blame = verdict.ranks if verdict.rank is None else (verdict.rank,)
        moved = any(ranks[rank].moved for rank in to_blame if rank in ranks)
        requests, self._requests = tuple(self._requests), []
        self._keeps = bool(requests)
        judged = Judged(verdict, str(self._number), tuple(sorted(ranks)), requests, None)
        if late and not moved and verdict.is_hang and not self.announced:
            return self._flag(judged, ranks, late)
        longest = max((found.still for found in late), default=0.0)
        self._due = now + min(LATEST, max(SOONEST, longest / 2))
        if not requests:
            return None
        sentence = verdict.sentence if late and not moved else "The ranks make progress."
        return judged._replace(verdict=verdict._replace(sentence=sentence))

    def _flag(
        self, judged: Judged, ranks: Mapping[int, RankEvidence], late: Sequence[RankEvidence]
    ) -> Judged:
        verdict = judged.verdict
        blamed = verdict.rank if verdict.rank is not None else max(late, key=lambda found: found.still).rank
        self._keeps = True
        self.announced = verdict.ranks or (blamed,)
        return judged._replace(verdict=verdict._replace(ranks=self.announced), evidence=ranks[blamed])
