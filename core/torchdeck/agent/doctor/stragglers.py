"""The rank that makes others wait: named after several reports in a row, with what differs on it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from statistics import median
from typing import NamedTuple

from torchdeck.agent.doctor.rank_facts import PlaceShare, RankFacts, StragglerReport
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


MOST = 3
"""Differences in one sentence."""


class Direction(Enum):
    """Which way a fact must differ to explain a slow rank."""

    MORE = "more"
    LESS = "less"


class Difference(NamedTuple):
    """A fact of a rank that differs from the others'."""

    name: str
    """Field of `RankFacts`."""
    own: float
    others: float
    """Median."""
    sentence: str
    """`its CPU is 40 % stolen by other processes (others: 1 %)`."""


class _Rule(NamedTuple):
    name: str
    get: Callable[[RankFacts], float | None]
    direction: Direction
    least: float
    """Difference that counts, in the fact's unit."""
    ratio: float
    """Quotient that counts, at least 1."""
    text: str
    """With `{own}` and `{others}`."""


_RULES = (
    _Rule("stolen", lambda of: of.stolen, Direction.MORE, 0.1, 1.5,
          "its CPU is {own:.0%} stolen by other processes (others: {others:.0%})"),
    _Rule("throttled", lambda of: of.throttled, Direction.MORE, 0.05, 1.5,
          "the CPU limit of its control group stops it {own:.0%} of the time (others: {others:.0%})"),
    _Rule("steal", lambda of: of.steal, Direction.MORE, 0.05, 1.5,
          "the hypervisor takes {own:.0%} of its node's CPU time (others: {others:.0%})"),
    _Rule("frequency", lambda of: of.frequency, Direction.LESS, 100.0, 1.15,
          "its CPU runs at {own:,.0f} MHz (others: {others:,.0f} MHz)"),
    _Rule("gpu_clock", lambda of: of.gpu_clock, Direction.LESS, 50.0, 1.08,
          "its GPU runs at {own:,.0f} MHz (others: {others:,.0f} MHz)"),
    _Rule("gpu_temperature", lambda of: of.gpu_temperature, Direction.MORE, 8.0, 1.1,
          "its GPU is at {own:.0f} °C (others: {others:.0f} °C)"),
    _Rule("gpu_power_limit", lambda of: of.gpu_power_limit, Direction.LESS, 10.0, 1.03,
          "its GPU's power limit is {own:.0f} W (others: {others:.0f} W)"),
    _Rule("pcie_width", lambda of: of.pcie_width, Direction.LESS, 1.0, 1.5,
          "its GPU has {own:.0f} PCIe lanes (others: {others:.0f})"),
    _Rule("loading", lambda of: of.loading, Direction.MORE, 0.15, 1.5,
          "it spends {own:.0%} of the time loading data (others: {others:.0%})"),
    _Rule("faults", lambda of: of.faults, Direction.MORE, 20.0, 2.0,
          "it waits for {own:,.0f} pages per second from disk (others: {others:,.0f})"),
)  # fmt: skip
"""Causes first, then symptoms."""
_PLACE_MORE = 0.15


def differences(ranks: Sequence[RankFacts], own: int) -> list[Difference]:
    """Return what differs on rank `own`, the likeliest cause first, at most `MOST`."""
    mine = next((facts for facts in ranks if facts.rank == own), None)
    others = [facts for facts in ranks if facts.rank != own]
    if mine is None or not others:
        return []
    found = [difference for rule in _RULES if (difference := _by(rule, mine, others)) is not None]
    place = None if any(item.name == "loading" for item in found) else _place(mine, others)
    return [*found, *([] if place is None else [place])][:MOST]


def _by(rule: _Rule, mine: RankFacts, others: Sequence[RankFacts]) -> Difference | None:
    value = rule.get(mine)
    known = [found for facts in others if (found := rule.get(facts)) is not None]
    if value is None or not known:
        return None
    typical = median(known)
    low, high = (typical, value) if rule.direction is Direction.MORE else (value, typical)
    if high - low < rule.least or high < low * rule.ratio:
        return None
    text = rule.text.format(own=value, others=typical).replace("%", " %")
    return Difference(rule.name, value, typical, text)


def _place(mine: RankFacts, others: Sequence[RankFacts]) -> Difference | None:
    """Return the line where the rank is more often than the others are, if there is one."""
    excess = [(found.share - _typical(found.place, others), found) for found in mine.places]
    more, found = max(excess, default=(0.0, PlaceShare("", 0.0)))
    if more < _PLACE_MORE:
        return None
    text = f"it is {found.share:.0%} of the time in {found.place} (others: {found.share - more:.0%})"
    return Difference("place", found.share, found.share - more, text.replace("%", " %"))


def _typical(place: str, ranks: Sequence[RankFacts]) -> float:
    return median(sum(found.share for found in facts.places if found.place == place) for facts in ranks)
