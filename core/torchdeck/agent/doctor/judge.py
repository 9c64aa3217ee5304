"""The verdict on ranks that make no progress: one for all of them. Pure: values in, one verdict out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torchdeck.agent.doctor import sentences
from torchdeck.agent.doctor.case import Case, activity, is_in
from torchdeck.agent.doctor.collectives import Mismatch
from torchdeck.agent.doctor.evidence import DEAD, Kind, RankEvidence, Verdict
from torchdeck.agent.doctor.stalls import LONG, LONG_ACTIVITIES, LONG_PHASES

WORKING_LIMIT = 20.0
"""A rank that is at work may make no progress for this many times its limit."""
UNREACHABLE = "unreachable"
"""State of a rank whose node does not answer."""
_STOPPED = ("T", "t")


def judge(ranks: Mapping[int, RankEvidence], nodes: Mapping[int, str]) -> Verdict:
    """Return why the ranks make no progress.

    Args:
        ranks: evidence by rank, of all ranks that are known.
        nodes: rank → node.
    """
    case = Case(ranks, nodes)
    living = [rank for rank in sorted(ranks) if not ranks[rank].ended]
    if not living:
        return Verdict(Kind.WORKING, None, "all ranks have ended")
    if all(_is_frozen(ranks[rank]) for rank in living) and len(living) == len(ranks):
        return Verdict(Kind.FROZEN, None, sentences.frozen(len(living)), tuple(living))
    for kind, is_it in _STATES:
        found = [rank for rank in living if is_it(ranks[rank], case)]
        if found:
            return _verdict(kind, found, case)
    mismatch = next((different for group in case.groups if (different := group.mismatch())), None)
    if mismatch is not None:
        return _mismatch(mismatch, case)
    return _by_waiting(case, living)


def _is_blocked(found: RankEvidence, case: Case) -> bool:
    """Return whether a rank waits for a disk, and for nothing else, longer than it may."""
    return found.blocked and not (found.working or case.waits(found.rank) or _has_time(found))


_STATES: Sequence[tuple[Kind, Callable[[RankEvidence, Case], bool]]] = (
    (Kind.MACHINE, lambda found, _: found.state == UNREACHABLE),
    (Kind.DEAD, lambda found, _: found.state in DEAD),
    (Kind.STOPPED, lambda found, _: found.state in _STOPPED),
    (Kind.DISK, _is_blocked),
)


def _by_waiting(case: Case, living: list[int]) -> Verdict:
    ranks = case.ranks
    free = [rank for rank in living if not case.waits(rank)]
    awaited = {rank for waiting in case.waiting.values() for rank in waiting.on}
    ended = [rank for rank in sorted(awaited) if rank in ranks and ranks[rank].ended]
    if ended:
        return _verdict(Kind.ABSENT, ended, case)
    if not free:
        ends = [rank for rank in sorted(awaited) if rank in ranks and rank not in case.waiting]
        if ends:  # by their stacks they wait, too, but not in a collective that others are in
            return _verdict(_kind_of(ranks[ends[0]]), ends, case)
        cycle = _cycle(case)
        if cycle:
            return Verdict(Kind.MISMATCH, _odd_one(cycle, case), sentences.cycle(cycle, case), tuple(cycle))
        return Verdict(Kind.COLLECTIVE, None, sentences.same_collective(living, case), tuple(living))
    late = [rank for rank in free if ranks[rank].still >= ranks[rank].limit / 2]
    to_blame = [rank for rank in free if rank in awaited] or late or free
    working = [rank for rank in to_blame if ranks[rank].working or _has_time(ranks[rank])]
    if working and all(ranks[rank].still < _working_limit(ranks[rank]) for rank in working):
        return Verdict(Kind.WORKING, working[0], sentences.working(working, case), tuple(working))
    to_blame = [rank for rank in to_blame if rank not in working] or to_blame
    return _verdict(_kind_of(ranks[to_blame[0]]), to_blame, case)


def _takes_long(found: RankEvidence) -> bool:
    """Return whether a rank does what takes long, such as a save or a compilation."""
    return found.phase in LONG or activity(found) in LONG_ACTIVITIES


def _has_time(found: RankEvidence) -> bool:
    """Return whether a rank may still be idle in what takes long, such as a save to a slow disk."""
    return _takes_long(found) and found.still < LONG_PHASES * found.limit


def _working_limit(found: RankEvidence) -> float:
    """Return the seconds for which a rank may be at work without progress.

    With the usual limit these are 10 minutes, which the compilation of a first step may exceed.
    """
    return WORKING_LIMIT * found.limit * (LONG_PHASES if _takes_long(found) else 1)


def _kind_of(found: RankEvidence) -> Kind:
    """Return the class of a rank that waits for no other."""
    if not found.known and not found.frames:
        return Kind.ABSENT
    if found.native or (found.known and not found.beating):
        return Kind.NATIVE
    if activity(found) == "loading data":
        return Kind.DATA
    return Kind.ELSEWHERE


def _verdict(kind: Kind, blamed: list[int], case: Case) -> Verdict:
    first = blamed[0]
    place = sentences.place_of(case.ranks[first])
    alike = [rank for rank in blamed if sentences.place_of(case.ranks[rank]) == place]
    return Verdict(kind, first, sentences.sentence(kind, alike, case), tuple(blamed), place)


def _mismatch(found: Mismatch, case: Case) -> Verdict:
    by_call: dict[object, list[int]] = {}
    for rank, call in found.calls:
        by_call.setdefault((call.operation, call.shapes, call.types), []).append(rank)
    fewest = min(by_call.values(), key=lambda ranks: (len(ranks), -ranks[0]))
    first = case.ranks[fewest[0]]
    place = sentences.place_of(first) if is_in(first, dict(found.calls)[first.rank]) else ""
    return Verdict(Kind.MISMATCH, first.rank, sentences.mismatch(found, case), tuple(fewest), place)


def _cycle(case: Case) -> list[int]:
    """Return ranks that wait for one another, each for the next; empty if there are none."""
    for start in sorted(case.waiting):
        path, rank = [start], start
        while rank in case.waiting:
            rank = min(case.waiting[rank].on, default=-1)
            if rank in path:
                return path[path.index(rank) :]
            path.append(rank)
    return []


def _odd_one(cycle: list[int], case: Case) -> int:
    """Return the rank of a cycle whose collective the fewest ranks are in."""
    calls = [(waiting.collective.group, waiting.collective.sequence) for waiting in case.waiting.values()]
    own = {rank: case.waiting[rank].collective for rank in cycle}
    return min(cycle, key=lambda rank: (calls.count((own[rank].group, own[rank].sequence)), rank))


def _is_frozen(found: RankEvidence) -> bool:
    return found.state == "T"
