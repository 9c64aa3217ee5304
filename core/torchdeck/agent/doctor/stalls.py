"""Ranks of this node that make no progress for too long. The agent's own awake seconds count, no others."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from torchdeck.agent.doctor import proc
from torchdeck.contract.doctor.rank_heartbeat import RankHeartbeat
from torchdeck.contract.metrics.progress import StepTimes
from torchdeck.contract.run_states import RankPhase

SLOW_STEPS = 5
"""A rank may take this many times its 99th percentile step before it is flagged."""
FIRST_LIMIT = 20.0
"""Seconds without progress before the first collective is done: interpreters and processes start slowly."""
TIMEOUT_SHARE = 0.6
"""A rank is flagged after this share of its process groups' shortest timeout at the latest: the timeout ends
it, and stacks and collectives are lost.
"""
LEAST_OF_TIMEOUT = 5.0
"""Seconds that this is at least."""
LONG_PHASES = 4
"""Saving, loading and compiling may take this many times longer without using processor or disk."""
MOST_COUNTED = 1.5
"""Seconds that pass between two looks at most: the ranks were held up with the agent otherwise."""
PAUSE = 4.0
"""Seconds without a heartbeat after which the limit begins again: the rank itself was stopped."""
BEATING = 5.0
"""Age of the heartbeat in seconds up to which a rank still writes it."""
SILENT_LIMIT = 120.0
"""Seconds, at least, that a rank without heartbeat or known rhythm may neither use nor print anything."""
SILENT_CPU, SILENT_BYTES = 0.1, 4096
"""Seconds of processor time, and bytes read or written, up to which it has used nothing since."""
SILENT_INTERVAL = 5.0
"""Seconds between two looks at what it has used."""
WORK_CPU, WORK_BYTES = 0.1, 256 * 1024
"""Processors, and bytes per second, that a rank at work uses at least."""
WORK_MEMORY = 4 << 20
"""Bytes by which the memory of a rank at work changes."""
WORK_SECONDS = 8.0
"""Seconds over which these are measured."""
LONG = frozenset((RankPhase.LOADING, RankPhase.COMPILING, RankPhase.SAVING))
LONG_ACTIVITIES = frozenset(("saving", "compiling"))
"""The same as the stack shows it: a script reports no phase."""
MANY_GAPS = 50
"""Pauses between collectives that are seen before the longest of them raise the limit."""
_SILENT = frozenset((RankPhase.STARTING, RankPhase.RUNNING))
"""Phases of a rank that reports nothing."""
_UNWATCHED = frozenset((RankPhase.STOPPING, RankPhase.DONE))
_WORKING = frozenset(("compiling", "saving", "loading data", "importing", "busy"))
_MANY_PLACES = 4


class Standing(NamedTuple):
    """The last report of a rank."""

    rank: int
    phase: RankPhase
    step: int
    reported: float
    """Time of its last report, by any clock."""
    slow_step: float | None
    """99th percentile of its step times in seconds, where known."""
    watched: bool
    """Without heartbeats: no report in this phase is a hang."""
    pid: int | None
    beat: RankHeartbeat | None = None
    age: float = 0.0
    """Seconds since the heartbeat."""
    printed: int = 0
    """Bytes of its output."""


class Stall(NamedTuple):
    """How long a rank has made no progress. Seconds."""

    still: float
    limit: float
    late: bool
    working: bool
    cpu: float


class StallWatch:
    """Remembers each rank's last progress."""

    def __init__(self, hang_after: float) -> None:
        """Watch; `hang_after` in seconds."""
        self._hang_after = hang_after
        self._ranks: dict[int, _RankMemory] = {}
        self._looked: float | None = None
        self._flagged = False
        self._bound = float("inf")
        """Shortest limit that was exceeded: steps as long as this were hung."""

    def look(self, standings: Mapping[int, Standing], now: float) -> dict[int, Stall]:
        """Return every living rank's stall; `now` in seconds that the agent was awake."""
        passed = 0.0 if self._looked is None else min(MOST_COUNTED, now - self._looked)
        self._looked = now
        found = {}
        for rank, standing in standings.items():
            memory = self._ranks.setdefault(rank, _RankMemory())
            used = memory.used(standing.pid, now) if _is_silent(standing) else 0
            memory.take(standing, used, passed, flagged=self._flagged)
            found[rank] = self._stall(standing, memory, now)
        for rank in set(self._ranks) - set(standings):
            del self._ranks[rank]
        late = [stall for stall in found.values() if stall.late]
        self._flagged = bool(late)
        self._bound = min([self._bound, *(stall.limit for stall in late)])
        return found

    def _stall(self, standing: Standing, memory: _RankMemory, now: float) -> Stall:
        limit, beat = self._limit(standing, memory), standing.beat
        takes_long = standing.phase in LONG or (beat is not None and beat.activity in LONG_ACTIVITIES)
        allowed = limit * (LONG_PHASES if takes_long else 1)
        if memory.still > limit / 3:
            memory.measure(standing, now)
        cpu, working = memory.work(standing)
        letter = proc.state(standing.pid) if memory.still > limit else ""
        watched = standing.watched if beat is None else standing.phase not in _UNWATCHED
        if _is_silent(standing):
            watched, allowed = True, max(allowed, SILENT_LIMIT)
        if letter in ("T", "t"):
            watched, allowed = True, limit  # a process that was stopped in a save will never end it
        return Stall(memory.still, limit, watched and memory.still > allowed, working, cpu)

    def _limit(self, standing: Standing, memory: _RankMemory) -> float:
        beat = standing.beat
        early = float("inf")
        if beat is not None and beat.timeout > 0:
            early = max(LEAST_OF_TIMEOUT, TIMEOUT_SHARE * beat.timeout)
        slow = SLOW_STEPS * memory.slow(standing, self._bound)
        limit = max(min(self._hang_after, early), slow)
        if beat is not None and not beat.completed and standing.phase in _SILENT:
            limit = max(limit, min(FIRST_LIMIT, early))
        return limit


def _is_silent(standing: Standing) -> bool:
    """Return whether nothing but what its processes use tells that a rank makes progress."""
    return (
        standing.beat is None
        and not standing.watched
        and standing.pid is not None
        and standing.phase not in _UNWATCHED
    )


class _RankMemory:
    """Progress of one rank."""

    def __init__(self) -> None:
        self.still = 0.0
        self._token: object = None
        self._beat = 0.0
        self._gaps = StepTimes()
        self._counted = 0
        self._trusted: float | None = None
        self._used: deque[tuple[float, proc.Usage]] = deque()
        self._asked = float("-inf")
        self._last_used: proc.Usage | None = None
        self._uses = 0

    def used(self, pid: int | None, now: float) -> int:
        """Return a number that changes when the process and its children have used something."""
        if pid is not None and now - self._asked >= SILENT_INTERVAL:
            self._asked = now
            found, last = proc.usage(pid), self._last_used
            # what a child used is gone with the child, which is a change, too
            if (
                last is None
                or abs(found.cpu - last.cpu) >= SILENT_CPU
                or abs(found.bytes - last.bytes) >= SILENT_BYTES
            ):
                self._last_used = found
                self._uses += 1
        return self._uses

    def take(self, standing: Standing, used: int, passed: float, *, flagged: bool) -> None:
        """Take in what a rank reports now, and a number that changes if it has used something."""
        beat = standing.beat
        collectives = beat and (beat.enqueued, beat.completed)
        # a program without collectives may wait for others that print, such as Ray's workers
        printed = 0 if beat is not None and beat.enqueued else standing.printed
        token = (standing.phase, standing.step, standing.reported, collectives, printed, used)
        paused = beat is not None and self._beat > 0 and beat.monotonic - self._beat > PAUSE
        self._beat = 0.0 if beat is None else beat.monotonic
        self.still += passed
        if token != self._token or paused:
            if self._token is not None and not flagged and not paused:
                self._gaps.add(self.still)
                self._counted += 1
            self._token, self.still = token, 0.0
            self._used.clear()

    def slow(self, standing: Standing, bound: float) -> float:
        """Return the 99th percentile step, hung steps left out."""
        slow = standing.slow_step
        if slow is None and self._counted >= MANY_GAPS:
            slow = self._gaps.slow_step
        if slow is not None and slow >= bound:
            slow = self._trusted
        self._trusted = slow
        return slow or 0.0

    def measure(self, standing: Standing, now: float) -> None:
        """Note what the rank has used until now."""
        if standing.pid is not None:
            self._used.append((now, proc.usage(standing.pid)))
            while now - self._used[0][0] > WORK_SECONDS:
                self._used.popleft()

    def work(self, standing: Standing) -> tuple[float, bool]:
        """Return (processors used, whether the rank is at work and does not only repeat itself).

        One that made progress just now is not measured yet, and is at work as far as is known.
        """
        if len(self._used) < 2:
            return 0.0, standing.pid is not None
        (begin, first), (end, last) = self._used[0], self._used[-1]
        seconds = max(0.1, end - begin)
        # what a child used is gone with the child
        cpu, moved = max(0.0, last.cpu - first.cpu) / seconds, max(0, last.bytes - first.bytes) / seconds
        own = max(0.0, last.own - first.own) / seconds
        if moved >= WORK_BYTES or cpu - own >= WORK_CPU:
            return cpu, True
        beat = standing.beat
        # a loop of the user's own lines that fills a table is at work, one that waits for a flag is not
        varied = beat is None or beat.places == 0 or beat.activity in _WORKING
        varied = varied or abs(last.memory - first.memory) >= WORK_MEMORY
        if beat is not None and standing.age < BEATING:
            varied = varied or beat.computes or beat.places >= _MANY_PLACES
        return cpu, own >= WORK_CPU and varied
