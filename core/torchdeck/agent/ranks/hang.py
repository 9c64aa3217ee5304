"""Distinguish a hung rank from a slow one. Pure, except for reading a process's state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from torchdeck.contract.processes import read_stat
from torchdeck.contract.run_states import RankPhase

SLOW_STEPS = 5
"""A rank may take this many times its 99th percentile step before it is flagged."""
_STATES = {
    "T": "stopped (SIGSTOP): kill -CONT {pid} lets it continue",
    "t": "held by a debugger",
    "D": "waiting in the kernel, as for a disk or a network file system that does not answer",
    "Z": "dead and not collected",
}


class Standing(NamedTuple):
    """How long a rank has reported nothing new."""

    rank: int
    phase: RankPhase
    step: int
    still: float
    """Seconds."""
    slow_step: float | None
    """99th percentile of its step times in seconds, where known."""
    watched: bool
    """In this phase stalled is a hang."""
    pid: int | None


class Hang(NamedTuple):
    """Hung rank, as journaled."""

    rank: int
    phase: RankPhase
    step: int
    still: float
    limit: float
    detail: str


def hang_limit(hang_after: float, slow_step: float | None) -> float:
    """Return the seconds a rank may make no progress: max(hang_after, 5 × the 99th percentile of its step
    time).
    """
    return max(hang_after, SLOW_STEPS * (slow_step or 0.0))


class HangWatch:
    """Remembers flagged ranks, so that each hang and its end are reported once."""

    def __init__(self, hang_after: float, flagged: Iterable[int] = ()) -> None:
        """Watch; `hang_after` in seconds, `flagged` are ranks an earlier agent flagged."""
        self._hang_after = hang_after
        self._flagged = set(flagged)

    def look(self, ranks: Mapping[int, Standing]) -> tuple[list[Hang], list[int]]:
        """(new hangs, ranks whose hang is over); who holds the others up comes first."""
        limits = {rank: hang_limit(self._hang_after, standing.slow_step) for rank, standing in ranks.items()}
        late = {rank for rank, standing in ranks.items() if _late(standing, limits[rank])}
        if late:
            # a waiting rank may have reported a moment before the rank it waits for
            late |= {rank for rank, standing in ranks.items() if _blocks(standing, limits[rank])}
        new = sorted(
            late - self._flagged, key=lambda rank: (not _process_state(ranks[rank]), ranks[rank].step, rank)
        )
        self._flagged.update(new)
        hangs = []
        for rank in new:
            standing = ranks[rank]
            detail = culprit(ranks, rank)
            hangs.append(Hang(rank, standing.phase, standing.step, standing.still, limits[rank], detail))
        over = [
            rank
            for rank in sorted(self._flagged)
            if rank not in ranks
            or not (_late(ranks[rank], limits[rank]) or _blocks(ranks[rank], limits[rank]))
        ]
        self._flagged.difference_update(over)
        return hangs, over


def _late(standing: Standing, limit: float) -> bool:
    # a long save or compilation is none, but a process that was stopped in one will never end it
    return standing.still > limit and (standing.watched or _state_letter(standing) in ("T", "t"))


def _blocks(standing: Standing, limit: float) -> bool:
    """It cannot continue, and has stood for a good part of the limit."""
    return standing.watched and standing.still > limit / 2 and bool(_process_state(standing))


def culprit(ranks: Mapping[int, Standing], rank: int) -> str:
    """Describe why `rank` makes no progress: its process's state, or the ranks it waits for."""
    stopped = _process_state(ranks[rank])
    if stopped:
        return f"rank {rank} is {stopped}"
    for other, standing in sorted(ranks.items()):
        state = _process_state(standing) if other != rank else ""
        if state:
            return f"rank {rank} waits; rank {other} is {state}"
    behind = min(ranks.values(), key=lambda standing: (standing.step, -standing.still))
    if behind.step < ranks[rank].step:
        return (
            f"rank {rank} waits; rank {behind.rank} is behind at step {behind.step}, in phase {behind.phase}"
        )
    ahead = max(standing.step for standing in ranks.values())
    if ranks[rank].step < ahead:
        return f"rank {rank} is behind: others are at step {ahead}"
    pid = ranks[rank].pid
    return "" if pid is None else f"`py-spy dump --pid {pid}` shows where its program is"


def _process_state(standing: Standing) -> str:
    letter = _state_letter(standing)
    return "gone" if letter is None else _STATES.get(letter, "").format(pid=standing.pid)


def _state_letter(standing: Standing) -> str | None:
    """As in proc(5); None when the process is gone, empty when it is not known."""
    if standing.pid is None:
        return ""
    stat = read_stat(standing.pid)
    return None if stat is None else stat.state
