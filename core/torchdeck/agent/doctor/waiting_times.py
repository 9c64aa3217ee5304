"""Share of the time that each rank waits for others in collectives, from its arrival times. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from statistics import fmean, median
from typing import NamedTuple

from torchdeck.contract.doctor.arrivals import RankArrivals

FEWEST = 8
"""Minimum number of collectives that all ranks of a group must have reached to judge it."""
BLOCKS = 5
"""Equal parts of the time, whose median counts: a save or an evaluation in one of them does not."""
SLACK = 2_000
"""Microseconds by which a rank may seem to leave a collective before the last one has arrived."""
FEWEST_ALIKE = 6
"""Collectives at one place of the program that show whether it waits there."""
LONGEST_PERIOD = 40
"""Collectives of a group per step up to which those at the same place of the step are told apart."""


class GroupWaits(NamedTuple):
    """Waiting of the ranks of one process group."""

    group: str
    shares: Mapping[int, float]
    """Rank → share of the time, from 0 to 1, that it waits in this group's collectives."""
    begin: int
    end: int
    """First and last arrival, in microseconds since the epoch by the leader's clock."""


class _Arrival(NamedTuple):
    """One rank at one collective."""

    time: int
    group: str
    sequence: int
    kind: int
    spent: int | None


class _Open(NamedTuple):
    """A collective that one rank reached before the last rank did; microseconds."""

    sequence: int
    ahead: int
    """Time from its own arrival to the last rank's."""
    gap: int
    """Time from its own arrival to its next collective."""


def group_waits(ranks: Mapping[int, RankArrivals], error: int = 0) -> list[GroupWaits]:
    """Return the waiting in each group whose ranks reached enough collectives together.

    Args:
        ranks: reports, whose times are by one clock.
        error: microseconds by which the clocks of two nodes may still differ.
    """
    every = {rank: _arrivals(found) for rank, found in ranks.items()}
    names = sorted({arrival.group for own in every.values() for arrival in own})
    found = [_of_group(name, every, SLACK + error) for name in names]
    return [waits for waits in found if waits is not None]


def _of_group(name: str, every: Mapping[int, Sequence[_Arrival]], slack: int) -> GroupWaits | None:
    calls = {
        rank: own
        for rank, arrivals in every.items()
        if (own := {arrival.sequence: arrival for arrival in arrivals if arrival.group == name})
    }
    if len(calls) < 2:
        return None
    common = sorted(set.intersection(*map(set, calls.values())))
    if len(common) < FEWEST:
        return None
    last = {number: max(own[number].time for own in calls.values()) for number in common}
    # from the end of the first step on, as its beginning is not known
    first = min(period(sorted(last.values())), len(common) - 1) - 1
    begin, end = last[common[first]], max(last.values())
    if end <= begin:
        return None
    measured = all(own[number].spent is not None for own in calls.values() for number in common)
    shares = {}
    for rank, own in calls.items():
        if measured:
            waited = {number: own[number].spent or 0 for number in common}
        else:
            waited = _waited(every[rank], name, last, slack)
        shares[rank] = _typical_share(waited, last, begin, end)
    return GroupWaits(name, shares, begin, end)


def _waited(own: Sequence[_Arrival], group: str, last: Mapping[int, int], slack: int) -> dict[int, int]:
    """Return collective → microseconds that a rank waits in it until the last rank arrives.

    A rank need not wait in a collective that it has called: DDP reduces a bucket while the backward pass
    computes the next one. So collectives at the same place of the program, known by what is called before and
    after them and by their number in the step, are looked at together.
    """
    step = period([arrival.time for arrival in own if arrival.group == group])
    places: dict[tuple[int, ...], list[_Open]] = {}
    for before, arrival, after in zip(own, own[1:], own[2:], strict=False):
        if arrival.group == group and arrival.sequence in last:
            call = _Open(arrival.sequence, last[arrival.sequence] - arrival.time, after.time - arrival.time)
            if call.gap >= call.ahead - slack:
                place = (before.kind, arrival.kind, after.kind, arrival.sequence % step)
                places.setdefault(place, []).append(call)
    waits = (calls for calls in places.values() if _waits(calls))
    return {call.sequence: call.ahead for call in chain.from_iterable(waits)}


def period(times: Sequence[int]) -> int:
    """Return the number of collectives after which the gaps between them repeat; 1 if they do not."""
    gaps = [after - before for before, after in pairwise(times)]
    most = min(LONGEST_PERIOD, len(gaps) // FEWEST_ALIKE)
    if most < 2:
        return 1
    # a save between two steps must not decide alone
    cap = 3 * fmean(gaps)
    changes = [
        fmean(min(abs(later - gap), cap) for gap, later in zip(gaps, gaps[step:], strict=False))
        for step in range(1, most + 1)
    ]
    enough = 1.3 * min(changes) + SLACK / 10
    return next(step for step, change in enumerate(changes, 1) if change <= enough)


def _waits(calls: Sequence[_Open]) -> bool:
    """Return whether the program waits in these collectives before it continues.

    If it does, its next collective comes later by as much as the last rank does. If it does not, the time
    until then is its own work, whatever the last rank does. The slope of the regression line tells, 1 or 0.
    """
    if len(calls) < FEWEST_ALIKE:
        return True
    # one long pause between two steps would decide alone
    usual = 3 * median(call.gap for call in calls)
    kept = [call for call in calls if call.gap <= usual]
    ahead, gap = fmean(call.ahead for call in kept), fmean(call.gap for call in kept)
    spread = sum((call.ahead - ahead) ** 2 for call in kept)
    together = sum((call.ahead - ahead) * (call.gap - gap) for call in kept)
    return spread <= 0 or together / spread > 1 / 2


def _typical_share(waited: Mapping[int, int], last: Mapping[int, int], begin: int, end: int) -> float:
    """Return the median share over equal parts of the time."""
    sums = [0] * BLOCKS
    for number, microseconds in waited.items():
        if begin < last[number]:
            sums[min(BLOCKS - 1, (last[number] - begin - 1) * BLOCKS // (end - begin))] += microseconds
    return min(1.0, median(sums) * BLOCKS / (end - begin))


def _arrivals(report: RankArrivals) -> list[_Arrival]:
    """Return a rank's arrivals in all groups, in the order of time."""
    found = []
    for group in report.groups:
        for at, (sequence, time) in enumerate(zip(group.sequences, group.times, strict=True)):
            kind = group.kinds[at] if group.kinds else 0
            spent = group.spent[at] if group.spent else None
            found.append(_Arrival(report.begin + time, group.group, sequence, kind, spent))
    return sorted(found)
