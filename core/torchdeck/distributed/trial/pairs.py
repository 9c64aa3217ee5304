"""Which ranks exchange data with each other in a trial, and which node, GPU or link is slow by the results.

Two rounds: every pair exchanges data, then slow pairs again, each of both sides also with a fast one. Pure
values, standard library; sent to nodes as text, and imported where the results are judged.
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

Pair = tuple[int, int]
"""The lower one first."""
Matching = list[Pair]
"""Pairs that exchange data at the same time: no one is in two of them."""

MOST_MATCHINGS = 31
"""All pairs of up to 32 nodes; of more, each node meets 31 others."""
MOST_AGAIN = 3
"""Slow pairs of one node or GPU that are measured again."""
SLOW_SHARE = 0.6
"""Share of the usual bandwidth below which a pair is slow: half of a bonded link or of a PCIe width is."""
SLOW_LATENCY = 3.0
"""Times the usual latency above which a pair is slow, and…"""
NOTABLE_LATENCY = 0.5e-3
"""… seconds above it."""


class Speed(NamedTuple):
    """Result of one pair."""

    latency: float
    """Seconds of the quickest exchange of one number, both at once."""
    bandwidth: float
    """Bytes/s in each direction, both at once."""


class Verdict(NamedTuple):
    """Judgement of all pairs."""

    usual: Speed
    """Median of the pairs that are not slow."""
    slow: tuple[int, ...]
    """Those that are slow with most others, the worst first."""
    links: tuple[Pair, ...]
    """Slow pairs of which neither side is slow with most others."""


def matchings(count: int, most: int = MOST_MATCHINGS) -> list[Matching]:
    """Return every pair of `count` members once, as a round-robin tournament (the circle method).

    Args:
        count: number of members, numbered from 0.
        most: number of matchings; if more were needed for all pairs, every member meets `most` others, or one
            less.
    """
    size = count + count % 2  # with an odd number one pauses in each matching
    found = []
    for turn in range(min(size - 1, most) if count > 1 else 0):
        circle = [size - 1, *((turn + step) % (size - 1) for step in range(size - 1))]
        halves = zip(circle[: size // 2], reversed(circle[size // 2 :]), strict=True)
        found.append(sorted(_pair(a, b) for a, b in halves if max(a, b) < count))
    return found


def schedule(ranks_of_nodes: Sequence[Sequence[int]], *, gpus: bool) -> list[Matching]:
    """Return the pairs of ranks of the first round.

    Args:
        ranks_of_nodes: ranks of each node, in the order of local ranks.
        gpus: each rank has a GPU: also the GPUs of each node are paired, and between nodes those with the
            same local rank, which often have a network card of their own. Otherwise the first ranks are.
    """
    found: list[Matching] = []
    if gpus:
        inside = [[(ranks, turn) for turn in matchings(len(ranks))] for ranks in ranks_of_nodes]
        for at_once in itertools.zip_longest(*inside):
            turns = [each for each in at_once if each is not None]
            found.append([(ranks[a], ranks[b]) for ranks, turn in turns for a, b in turn])
    for turn in matchings(len(ranks_of_nodes)):
        pairs = []
        for a, b in turn:
            both = list(zip(ranks_of_nodes[a], ranks_of_nodes[b], strict=False))
            pairs += both if gpus else both[:1]
        found.append([_pair(a, b) for a, b in pairs])
    return [matching for matching in found if matching]


def groups(ranks_of_nodes: Sequence[Sequence[int]], *, gpus: bool) -> list[tuple[int, ...]]:
    """Return the groups of ranks whose pairs are comparable: GPUs of one node, and one rank of each node."""
    lanes = list(itertools.zip_longest(*ranks_of_nodes))[: None if gpus else 1]
    between = [tuple(rank for rank in lane if rank is not None) for lane in lanes]
    inside = [tuple(ranks) for ranks in ranks_of_nodes] if gpus else []
    return [group for group in (*inside, *between) if len(group) > 1]


def usual(speeds: Mapping[Pair, Speed]) -> Speed:
    """Return the speed of pairs among members that are not slow, if at most one member of a few is.

    Of n members with a slow one, (n - 1)(n - 2) / 2 pairs are without it: the median of as many of the best.
    """
    members = {each for pair in speeds for each in pair}
    without = max(1, (len(members) - 1) * (len(members) - 2) // 2)
    count = max(1, round(len(speeds) * without / max(1, len(members) * (len(members) - 1) // 2)))
    latencies = sorted(speed.latency for speed in speeds.values())[:count]
    bandwidths = sorted((speed.bandwidth for speed in speeds.values()), reverse=True)[:count]
    return Speed(statistics.median(latencies), statistics.median(bandwidths))


def slow_pairs(speeds: Mapping[Pair, Speed]) -> set[Pair]:
    """Return the pairs that are much slower than usual."""
    if len(speeds) < 2:
        return set()
    normal = usual(speeds)
    limit = max(SLOW_LATENCY * normal.latency, normal.latency + NOTABLE_LATENCY)
    return {
        pair
        for pair, speed in speeds.items()
        if speed.bandwidth < SLOW_SHARE * normal.bandwidth or speed.latency > limit
    }


def second_round(comparable: Iterable[Sequence[int]], speeds: Mapping[Pair, Speed]) -> list[Matching]:
    """Return what is measured again: slow pairs, and both sides of each with fast members of its group."""
    wanted: list[Pair] = []
    for group in comparable:
        own = _of(group, speeds)
        bad = slow_pairs(own)
        again: Counter[int] = Counter()
        fast = _fast(group, own, bad)
        for a, b in sorted(bad, key=lambda pair: own[pair].bandwidth):
            if max(again[a], again[b]) >= MOST_AGAIN:
                continue
            again.update((a, b))
            wanted.append((a, b))
            others = [each for each in fast if each not in (a, b)]
            if others:
                wanted += [_pair(a, others[0]), _pair(b, others[-1])]
    return _packed(dict.fromkeys(wanted))


def better(first: Mapping[Pair, Speed], again: Mapping[Pair, Speed]) -> dict[Pair, Speed]:
    """Return the better of two measurements of each pair: a disturbance makes a pair slower, never faster."""
    found = dict(first)
    for pair, speed in again.items():
        old = found.get(pair, speed)
        found[pair] = Speed(min(old.latency, speed.latency), max(old.bandwidth, speed.bandwidth))
    return found


def judge(group: Sequence[int], speeds: Mapping[Pair, Speed]) -> Verdict | None:
    """Return which members of a group are slow, and which links; None: too few pairs to compare."""
    own = _of(group, speeds)
    if len(own) < 2:
        return None
    left, bad = set(own), slow_pairs(own)
    slow: list[int] = []
    while True:
        measured = Counter(each for pair in left for each in pair)
        wrong = Counter(each for pair in left & bad for each in pair)
        # a slow link makes both its sides slow with one other; two slow pairs are the least for a member
        guilty = [each for each in wrong if wrong[each] > 1 and 2 * wrong[each] > measured[each]]
        if not guilty:
            break
        worst = max(guilty, key=lambda each: (wrong[each] / measured[each], wrong[each], -each))
        slow.append(worst)
        left = {pair for pair in left if worst not in pair}
    links = tuple(sorted(left & bad))
    fine = {pair: speed for pair, speed in own.items() if pair in left - bad} or own
    return Verdict(usual(fine), tuple(slow), links)


def slowest_members(values: Mapping[int, float]) -> tuple[int, ...]:
    """Return the members whose own value (a speed) is much lower than that of the others, the worst first."""
    if len(values) < 2:
        return ()
    normal = statistics.median(values.values()) if len(values) > 2 else max(values.values())
    return tuple(
        sorted((each for each in values if values[each] < SLOW_SHARE * normal), key=values.__getitem__)
    )


def _of(group: Sequence[int], speeds: Mapping[Pair, Speed]) -> dict[Pair, Speed]:
    members = set(group)
    return {pair: speed for pair, speed in speeds.items() if members.issuperset(pair)}


def _fast(group: Sequence[int], speeds: Mapping[Pair, Speed], bad: set[Pair]) -> list[int]:
    """Return the members without a slow pair, the fastest first; if there is none, those with the fewest."""
    wrong = Counter(each for pair in bad for each in pair)
    best = {
        each: max((speed.bandwidth for pair, speed in speeds.items() if each in pair), default=0.0)
        for each in group
    }
    fewest = min((wrong[each] for each in group), default=0)
    return sorted((each for each in group if wrong[each] == fewest), key=lambda each: -best[each])


def _packed(pairs: Iterable[Pair]) -> list[Matching]:
    """Return the pairs in as few matchings as the first that has room for each."""
    found: list[Matching] = []
    for pair in pairs:
        room = (matching for matching in found if not {each for one in matching for each in one} & set(pair))
        into = next(room, None)
        if into is None:
            found.append([pair])
        else:
            into.append(pair)
    return found


def _pair(a: int, b: int) -> Pair:
    return (a, b) if a < b else (b, a)
