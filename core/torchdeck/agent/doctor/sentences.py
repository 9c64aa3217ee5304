"""Verdicts in words: one sentence on what holds the ranks up, one on what to do. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from torchdeck.agent.doctor.case import Case, is_in
from torchdeck.agent.doctor.collectives import Mismatch, elements, name
from torchdeck.agent.doctor.evidence import Collective, Frame, Kind, RankEvidence
from torchdeck.telemetry.doctor.main_thread import is_users

_NOT_THE_PROGRAMS = ("<", "/torch/", "/threading.py", "/concurrent/", "/multiprocessing/", "/queue.py")
_PACKAGE = re.compile(r"/(?:(?:site|dist)-packages/|(?=torchdeck/))(?P<folders>(?:[^/]+/)*)[^/]*$")
"""Folders of a file below those of installed packages, or from Torchdeck's own on."""
_MOST_RANKS = 8
_MOST_LAST = 3
"""Groups of which the last collective of a rank that is gone is named."""
_REMEDIES = {
    Kind.ELSEWHERE: "Every rank must reach the same collectives",
    Kind.NATIVE: "A call of native code does not return",
    Kind.ABSENT: "Every rank must call the same collectives, the same number of times",
    Kind.DATA: "Look at the data set and its storage; without worker processes it shows its own traceback",
    Kind.DISK: "Look at that disk or network file system",
    Kind.DEAD: "Its output and the node's kernel log tell more",
}


def place_of(found: RankEvidence) -> str:
    """Return `train.py:84 save_model`: the user's own innermost frame, else the innermost outside torch.

    A package's file is shown with its folders: `torchdeck/distributed/strategies/base.py:148 backward`.
    """
    frames = found.frames
    own = next((frame for frame in frames if is_users(frame.file)), None)
    if own is None:
        own = next(
            (frame for frame in frames if not any(part in frame.file for part in _NOT_THE_PROGRAMS)), None
        )
    own = own or (frames[0] if frames else None)
    if own is None:
        return ""
    inside = None if is_users(own.file) else _PACKAGE.search(own.file)
    return shown(own) if inside is None else f"{inside['folders']}{shown(own)}"


def shown(frame: Frame) -> str:
    """Return `train.py:84 save_model`."""
    function = "" if frame.function == "<module>" else f" {frame.function}"
    return f"{frame.file.rpartition('/')[2]}:{frame.line}{function}"


def these(ranks: Sequence[int], case: Case | None = None) -> str:
    """Return `rank 1`, `rank 1 on gpu4`, `ranks 0, 2 and 3`."""
    if len(ranks) == 1:
        node = case.nodes.get(ranks[0], "") if case is not None else ""
        return f"rank {ranks[0]} on {node}" if node else f"rank {ranks[0]}"
    named = [str(rank) for rank in ranks[:_MOST_RANKS]]
    if len(ranks) > _MOST_RANKS:
        return f"ranks {', '.join(named)} and {len(ranks) - _MOST_RANKS} more"
    return f"ranks {', '.join(named[:-1])} and {named[-1]}"


def sentence(kind: Kind, blamed: Sequence[int], case: Case) -> str:
    """Return the sentence on ranks that hold the others up, and what to do."""
    found = case.ranks[blamed[0]]
    who = _capital(these(blamed, case))
    waiting = _waiting(blamed, case)
    if kind is Kind.ABSENT and not found.ended:
        return f"{who} {_unknown(blamed, found, is_awaited=bool(waiting))}{waiting}.{_remedy(kind, found)}"
    last = _last_collectives(found, case) if kind is Kind.DEAD and len(blamed) == 1 else ""
    return f"{who} {_doing(kind, blamed, found)}{last}{waiting}.{_remedy(kind, found)}"


def _last_collectives(found: RankEvidence, case: Case) -> str:
    """Return `, after it began collective #1204 of group dp` of a rank that is gone; empty if unknown."""
    shown = {group.name: group.shown for group in case.groups}
    named = []
    for each in found.counts:
        group = shown.get(each.group, each.group)
        if each.enqueued:
            named.append(f"#{each.enqueued}{f' of group {group}' if group else ''}")
    return f", after it began collective {', '.join(named[:_MOST_LAST])}" if named else ""


def _unknown(blamed: Sequence[int], found: RankEvidence, *, is_awaited: bool) -> str:
    """Return what is known of a rank without heartbeat and stack."""
    many = len(blamed) > 1
    have = "have" if many else "has"
    what = "not arrived" if is_awaited else f"made no progress for {found.still:,.0f} s"
    its = "their programs" if many else "its program"
    kernel = f", which waits in the kernel ({found.kernel})" if found.kernel and not many else ""
    return f"{have} {what}; nothing is known of {its}{kernel}"


def _doing(kind: Kind, blamed: Sequence[int], found: RankEvidence) -> str:
    many = len(blamed) > 1
    are, have = ("are", "have") if many else ("is", "has")
    place = place_of(found)
    at = f", at {place}" if place else ""
    if kind is Kind.MACHINE:
        return f"{are} on a node that does not answer"
    if kind is Kind.DEAD:
        return f"{have} died without an exit code (process {found.pid})"
    if kind is Kind.STOPPED:
        return f"{are} held by a debugger{at}" if found.state == "t" else f"{are} stopped (SIGSTOP){at}"
    if kind is Kind.DISK:
        on = f" ({found.kernel})" if found.kernel else ""
        return f"{'wait' if many else 'waits'} in the kernel for a disk or a network file system{on}{at}"
    if kind is Kind.ABSENT:
        return f"{have} ended"
    if kind is Kind.NATIVE:
        return f"{are} in native code that does not return" + (f", called at {place}" if place else "")
    if kind is Kind.DATA:
        workers = f" ({found.workers})" if found.workers else ""
        return f"{'wait' if many else 'waits'} for data{workers}" + (f" in {place}" if place else "")
    return f"{are} in {place or 'an unknown place'}"


def _remedy(kind: Kind, found: RankEvidence) -> str:
    if kind is Kind.STOPPED and found.state != "t":
        return f" `kill -CONT {found.pid}` lets it continue."
    if kind is Kind.ABSENT and not found.ended:
        return " If py-spy is installed on its node, the line of a Python program is shown."
    return f" {_REMEDIES[kind]}." if kind in _REMEDIES else ""


def _waiting(blamed: Sequence[int], case: Case) -> str:
    """Return `; ranks 0 and 2 wait for it in all_reduce #1204 of group dp (1,024 floats), train.py:61`."""
    others = [rank for rank in sorted(case.ranks) if rank not in blamed and not case.ranks[rank].ended]
    waiting = [rank for rank in others if case.waits(rank)]
    if not waiting:
        return ""
    it = "it" if len(blamed) == 1 else "them"
    first = next((case.waiting[rank] for rank in waiting if rank in case.waiting), None)
    place = place_of(case.ranks[first.rank if first is not None else waiting[0]])
    at = f", {place}" if place else ""
    where = ""
    if first is not None:
        group = case.group(first)
        where = f" in {call(first.collective, group.shown if group is not None else '')}"
    elif place:
        where, at = f" in {place}", ""
    return f"; {these(waiting)} {'waits' if len(waiting) == 1 else 'wait'} for {it}{where}{at}"


def call(found: Collective, group: str) -> str:
    """Return `all_reduce #1204 of group dp (1,024 floats)`."""
    of = f" of group {group}" if group else ""
    return f"{name(found)} #{found.sequence}{of}{_size(found)}"


def _size(found: Collective) -> str:
    """Return ` (1,024 floats)`, ` (8 elements: float, double)`; empty if it is not known."""
    count = elements(found)
    if count is None:
        return ""
    kind, *others = dict.fromkeys(found.types.lower().split(","))
    kind, kinds = ("element", f": {', '.join([kind, *others])}") if others else (kind or "element", "")
    return f" ({count:,} {kind}{'' if count == 1 else 's'}{kinds})"


def working(ranks: Sequence[int], case: Case) -> str:
    """Return the sentence on ranks that are at work."""
    place = place_of(case.ranks[ranks[0]])
    at = f" in {place}" if place else ""
    return f"{_capital(these(ranks, case))} {'is' if len(ranks) == 1 else 'are'} at work{at}"


def frozen(count: int) -> str:
    """Return the sentence on a run that was stopped as a whole."""
    return f"All {count} ranks are stopped (SIGSTOP)" if count > 1 else "The rank is stopped (SIGSTOP)"


def same_collective(ranks: Sequence[int], case: Case) -> str:
    """Return the sentence on ranks that all wait in the same collective."""
    pending = [(group, found) for group in case.groups if (found := group.pending(ranks[0])) is not None]
    where = f" in {call(pending[-1][1], pending[-1][0].shown)}" if pending else ""
    place = place_of(case.ranks[ranks[0]])
    at = f", {place}" if place else ""
    who = f"All {len(ranks)} ranks wait" if len(ranks) > 1 else "The rank waits"
    nccl = next((f" {case.ranks[rank].nccl}." for rank in ranks if case.ranks[rank].nccl), "")
    links = _links(ranks, case)
    return (
        f"{who}{where}{at}, and none gets an answer: the network or a device is at fault. "
        f"`torchdeck check` tests the connections.{links}{nccl}"
    )


def _links(ranks: Sequence[int], case: Case) -> str:
    """Return ` Network interfaces since the attempt began: gpu4, eth1: 120 receive errors, carrier lost.`"""
    found: dict[str, str] = {}
    for rank in ranks:
        faults = case.ranks[rank].interfaces
        if faults:
            node = case.nodes.get(rank, "")
            found.setdefault(node, f"{node}, {faults}" if node else faults)
    return f" Network interfaces since the attempt began: {'; '.join(found.values())}." if found else ""


def mismatch(found: Mismatch, case: Case) -> str:
    """Return the sentence on different collectives under one number, with the line of each if it is known.

    A rank that has left its call is said to be elsewhere now.
    """
    by_call: dict[tuple[str, str, bool], list[int]] = {}
    for rank, collective in found.calls:
        evidence = case.ranks[rank]
        key = call(collective, ""), place_of(evidence), is_in(evidence, collective)
        by_call.setdefault(key, []).append(rank)
    parts = []
    for (what, place, inside), ranks in by_call.items():
        calls, has, is_ = ("calls", "has", "is") if len(ranks) == 1 else ("call", "have", "are")
        called = f"{calls} {what}" if inside else f"{has} called {what}"
        at = f" at {place}" if inside else f" and {is_} now at {place}"
        parts.append(f"{these(ranks, case)} {called}{at if place else ''}")
    different = ", but ".join(parts)
    return f"Ranks call different collectives: {different}. All must call the same ones in the same order."


def cycle(ranks: Sequence[int], case: Case) -> str:
    """Return the sentence on ranks that wait for one another."""
    parts = []
    for rank in ranks:
        waiting = case.waiting[rank]
        group = case.group(waiting)
        at = place_of(case.ranks[rank])
        where = call(waiting.collective, group.shown if group is not None else "")
        parts.append(f"{these([rank], case)} in {where}{f' at {at}' if at else ''}")
    return f"Ranks wait for one another: {', '.join(parts)}. All must call collectives in the same order."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
