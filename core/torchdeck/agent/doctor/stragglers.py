"""The rank that makes others wait: named once it does so for several reports in a row. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from torchdeck.agent.doctor.differences import Difference, differences
from torchdeck.agent.doctor.rank_facts import RankFacts, StragglerReport
from torchdeck.agent.doctor.sentences import these
from torchdeck.agent.doctor.waiting_times import GroupWaits, group_waits
from torchdeck.contract.doctor.arrivals import RankArrivals, is_consistent

LEAST = 0.05
"""Share of the time that the others must wait."""
LITTLE = 1 / 3
"""A straggler waits at most this part of what the others wait."""
REPORTS = 3
"""Reports in a row in which it must be the same rank; as many without it end it."""
NEWS = 0.1
"""Change of the share that is reported again."""

_LONGEST = 600 * 1_000_000
"""Microseconds of reports that are judged as one."""
_MOST = 1024
"""Collectives of them."""


class Slow(NamedTuple):
    """Ranks that make the others of their group wait, in one report."""

    ranks: tuple[int, ...]
    share: float
    """Share of the time that the others wait longer than they do, from 0 to 1."""
    group: str


class Straggler(NamedTuple):
    """Ranks that keep the others waiting."""

    ranks: tuple[int, ...]
    share: float
    since: float
    """Seconds since the epoch."""
    step: int | None
    """The first slow step; None if the program counts none."""
    differences: tuple[Difference, ...]
    """Those of the first of them."""


class StragglerWatch:
    """Reports of all ranks of one attempt.

    Attributes:
        announced: what stands reported; None if there is nothing.
    """

    def __init__(self) -> None:
        self.announced: Straggler | None = None
        self._waiting: dict[int, StragglerReport] = {}
        self._seen: tuple[int, ...] = ()
        self._row: list[tuple[Slow, float, int | None]] = []
        """Reports in a row that name the same ranks, with begin and step of each."""
        self._without = 0

    def take(self, reports: Sequence[StragglerReport], world: int, error: float = 0.0) -> bool:
        """Take in reports of a node; returns whether `announced` has changed.

        Args:
            reports: of some ranks.
            world: number of ranks; it is judged once all have reported.
            error: seconds by which the clocks of nodes may differ.
        """
        for report in reports:
            if not 0 <= report.facts.rank < world or not is_consistent(report.arrivals):
                continue  # of another node's agent, whose ranks may have written anything
            known = self._waiting.get(report.facts.rank)
            self._waiting[report.facts.rank] = report if known is None else merged(known, report)
        if len(self._waiting) < world:
            return False
        reported, self._waiting = self._waiting, {}
        waits = group_waits({rank: found.arrivals for rank, found in reported.items()}, round(error * 1e6))
        if not waits:
            self._waiting = reported  # steps are long: judged together with the next reports
            return False
        begin = min(group.begin for group in waits) / 1e6
        return self._judge(slowest(waits), begin, [found.facts for found in reported.values()])

    def _judge(self, slow: Slow | None, begin: float, facts: Sequence[RankFacts]) -> bool:
        if slow is None or (self._row and self._row[-1][0].ranks != slow.ranks):
            self._row = []
        if slow is not None:
            step = next((found.step for found in facts if found.rank == slow.ranks[0]), None)
            self._row.append((slow, begin, step))
        standing = self.announced
        if standing is not None and (slow is None or slow.ranks != standing.ranks):
            self._without += 1
            if self._without >= REPORTS:
                self.announced, self._without = None, 0
                return self._found(facts) or True
            return False
        self._without = 0
        return self._found(facts)

    def _found(self, facts: Sequence[RankFacts]) -> bool:
        """Announce the ranks that were named long enough; returns whether that is news."""
        if len(self._row) < REPORTS:
            return False
        del self._row[1:-REPORTS]
        share = median(slow.share for slow, _, _ in self._row[-REPORTS:])
        standing, (first, begin, step) = self.announced, self._row[0]
        found = tuple(differences(_apart(facts, first.ranks), first.ranks[0]))
        if standing is not None and abs(standing.share - share) < NEWS:
            if standing.differences or not found:
                return False
            share = standing.share  # a cause that shows later is news
        if standing is not None:
            begin, step = standing.since, standing.step
        self.announced = Straggler(first.ranks, share, begin, step, found)
        return True


def slowest(groups: Sequence[GroupWaits]) -> Slow | None:
    """Return the ranks that make others wait most; None if the waiting has no such origin.

    A rank that waits itself, in another group, is late because of that one.
    """
    total: dict[int, float] = {}
    for group in groups:
        for rank, share in group.shares.items():
            total[rank] = total.get(rank, 0.0) + share
    found = []
    for group in groups:
        slow = _slow_in(group)
        if slow is not None:
            ranks = tuple(rank for rank in slow.ranks if total[rank] <= slow.share * LITTLE)
            found += [slow._replace(ranks=ranks)] if ranks else []
    return max(found, key=lambda slow: slow.share, default=None)


def _slow_in(group: GroupWaits) -> Slow | None:
    shares = sorted(group.shares.values())
    # of those who wait more: half of a gang may be slow
    waiting = median(shares[len(shares) // 2 :])
    ranks = tuple(sorted(rank for rank, share in group.shares.items() if share <= waiting * LITTLE))
    if not ranks or waiting <= 0:
        return None
    share = waiting - median(group.shares[rank] for rank in ranks)
    return Slow(ranks, share, group.group) if share >= LEAST else None


def sentence(found: Straggler, nodes: Mapping[int, str]) -> str:
    """Return one sentence on ranks that make the others wait, and what differs on them.

    Args:
        found: the ranks.
        nodes: rank → node, empty if there is one node only.
    """
    who = these(list(found.ranks))
    on = {nodes.get(rank, "") for rank in found.ranks} - {""}
    where = f" on {next(iter(on))}" if len(on) == 1 else ""
    make = "makes" if len(found.ranks) == 1 else "make"
    since = "" if found.step is None else f" since step {found.step:,}"
    differs = "; ".join(item.sentence for item in found.differences)
    text = f"{who[:1].upper()}{who[1:]}{where} {make} the others wait {found.share:.0%}".replace("%", " %")
    return f"{text} of each step{since}{f'; {differs}' if differs else ''}"


def merged(old: StragglerReport, new: StragglerReport) -> StragglerReport:
    """Return two reports of a rank as one: ranks with fewer reports are waited for."""
    if not 0 <= new.arrivals.begin - old.arrivals.begin < _LONGEST:
        return new
    shift = new.arrivals.begin - old.arrivals.begin
    groups = {group.group: group for group in old.arrivals.groups}
    for group in new.arrivals.groups:
        times = tuple(time + shift for time in group.times)
        before = groups.get(group.group)
        if before is None:
            groups[group.group] = group._replace(times=times)
            continue
        measured = bool(before.spent) and bool(group.spent)
        named = bool(before.kinds) and bool(group.kinds)
        groups[group.group] = before._replace(
            sequences=(before.sequences + group.sequences)[-_MOST:],
            times=(before.times + times)[-_MOST:],
            kinds=(before.kinds + group.kinds)[-_MOST:] if named else (),
            spent=(before.spent + group.spent)[-_MOST:] if measured else (),
        )
    return StragglerReport(new.facts, RankArrivals(old.arrivals.begin, tuple(groups.values())))


def _apart(facts: Sequence[RankFacts], ranks: Sequence[int]) -> list[RankFacts]:
    """Return the first of `ranks` and all that are not among them."""
    return [found for found in facts if found.rank == ranks[0] or found.rank not in ranks]
