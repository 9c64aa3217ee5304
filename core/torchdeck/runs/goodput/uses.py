"""Division of a run's wall time by use. Pure.

Each second from the creation of the run to its end belongs to one use, so the shares add up to 1. Steps are
intervals between the rows of a rank's metrics. The time between the end of one session and a resume by hand
is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Use(Enum):
    """Use of time, by the word that is shown."""

    PRODUCTIVE = "productive"
    """Steps that count: no later attempt repeats them."""
    QUEUE = "queue"
    """Waiting for devices that another run holds."""
    START = "start"
    """From the order to start to the first step."""
    SAVE = "save"
    """Training waits for a checkpoint."""
    STALL = "stall"
    """No rank makes progress, as the doctor has flagged."""
    STRAGGLER = "straggler"
    """The share of steps in which ranks wait for a slower one."""
    RESTART = "restart"
    """From a failure to the first step of the next attempt."""
    RECOMPUTE = "recompute"
    """Steps that an earlier attempt had done after its newest checkpoint."""
    OTHER = "other"
    """The rest, such as evaluations and the end of the program."""


class Span(NamedTuple):
    """Time from `begin` to `end`, unix seconds."""

    begin: float
    end: float

    def within(self, begin: float, end: float) -> float:
        """Return the seconds of it that lie between two times."""
        return max(0.0, min(self.end, end) - max(self.begin, begin))


class Slowness(NamedTuple):
    """Ranks wait for a straggler in this time, for a share of each step."""

    span: Span
    share: float


@dataclass(frozen=True)
class Steps:
    """Rows that one rank wrote in one attempt, in order of time; shape (n,) each."""

    times: Floats
    """Unix seconds."""
    steps: NDArray[np.int64]
    """Steps done then."""
    seconds: Floats
    """Seconds per step since the row before, without saves and evaluations; NaN if unknown."""


@dataclass(frozen=True)
class AttemptTimes:
    """One attempt, as far as one rank tells; unix seconds."""

    begin: float
    end: float
    steps: Steps
    is_first: bool = True
    """It begins a session of the run: it is no restart."""
    is_last: bool = True
    """No other attempt of the session follows."""
    resumed: int | None = None
    """Steps done before its first one; None if unknown."""
    saves: Sequence[tuple[float, float]] = ()
    """(end, seconds) of saves for which training waited."""


@dataclass(frozen=True)
class Goodput:
    """Seconds of each use; they add up to `wall`."""

    seconds: Mapping[Use, float]
    joules: float | None = None
    """Energy of the node's GPUs; None if it was not measured."""
    nodes: Mapping[str, Goodput] = field(default_factory=dict)
    """The same of each node, by its first rank; of a run on several nodes only."""

    @property
    def wall(self) -> float:
        """Counted time, in seconds."""
        return sum(self.seconds.values())

    def share(self, use: Use) -> float:
        """Return the share of a use, from 0 to 1; 0 if no time has passed."""
        wall = self.wall
        return self.seconds.get(use, 0.0) / wall if wall > 0 else 0.0

    def rows(self) -> list[tuple[str | None, str, float]]:
        """Return (node, name, value) for exports: first the whole run, whose node is None.

        Names are `wall_seconds`, `productive_seconds`, `productive_share` and so on, and `joules` if known.
        """
        return [
            (node, name, value)
            for node, each in ((None, self), *self.nodes.items())
            for name, value in each.values().items()
        ]

    def values(self) -> dict[str, float]:
        """Return seconds and shares by name, without those of nodes."""
        seconds = {f"{use.value}_seconds": self.seconds.get(use, 0.0) for use in Use}
        shares = {f"{use.value}_share": self.share(use) for use in Use}
        joules = {} if self.joules is None else {"joules": self.joules}
        return {"wall_seconds": self.wall, **seconds, **shares, **joules}

    def to_json(self) -> dict[str, object]:
        """Return plain dicts and numbers."""
        return {
            "wall_seconds": self.wall,
            "seconds": {use.value: self.seconds.get(use, 0.0) for use in Use},
            "shares": {use.value: self.share(use) for use in Use},
            "joules": self.joules,
            **({"nodes": {name: node.to_json() for name, node in self.nodes.items()}} if self.nodes else {}),
        }


def divide(
    created: float,
    attempts: Sequence[AttemptTimes],
    queued: Iterable[Span] = (),
    stalls: Sequence[Span] = (),
    slow: Sequence[Slowness] = (),
) -> dict[Use, float]:
    """Return the seconds of each use, from `created` to the end of the last attempt.

    Args:
        created: unix seconds.
        attempts: in order; of overlapping ones the earlier ends where the later begins.
        queued: times in which the run waited for devices.
        stalls: times in which it hung.
        slow: times in which it had a straggler.
    """
    found = dict.fromkeys(Use, 0.0)
    queued, stalls = _merged(queued), _merged(stalls)
    at, reached = created, 0
    for number, attempt in enumerate(attempts):
        begin = max(at, attempt.begin)
        later = attempts[number + 1].begin if number + 1 < len(attempts) else attempt.end
        end = max(begin, min(attempt.end, later) if number + 1 < len(attempts) else attempt.end)
        if number == 0:
            waited = min(begin - at, sum(span.within(at, begin) for span in queued))
            found[Use.QUEUE] += waited
            found[Use.START] += begin - at - waited
        elif not attempt.is_first:
            found[Use.RESTART] += begin - at
        _add_attempt(found, attempt, Span(begin, end), reached, stalls, slow)
        reached = max(reached, int(attempt.steps.steps.max(initial=0)))
        at = end
    return found


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Return spans that do not overlap, and cover the same time."""
    merged: list[Span] = []
    for span in sorted(spans):
        if merged and span.begin <= merged[-1].end:
            merged[-1] = Span(merged[-1].begin, max(merged[-1].end, span.end))
        elif span.end > span.begin:
            merged.append(span)
    return merged


def _add_attempt(
    found: dict[Use, float],
    attempt: AttemptTimes,
    span: Span,
    reached: int,
    stalls: Sequence[Span],
    slow: Sequence[Slowness],
) -> None:
    """Add the time of one attempt, after `reached` steps of earlier ones."""
    before = Use.START if attempt.is_first else Use.RESTART
    after = Use.OTHER if attempt.is_last else Use.RESTART
    times = np.clip(np.maximum.accumulate(attempt.steps.times), span.begin, span.end)
    if not len(times):
        hung = min(span.end - span.begin, sum(stall.within(*span) for stall in stalls))
        found[Use.STALL] += hung
        found[before] += span.end - span.begin - hung
        return
    numbers = attempt.steps.steps
    resumed = numbers[0] - 1 if attempt.resumed is None else min(attempt.resumed, int(numbers[0]))
    counts = np.diff(numbers, prepend=resumed).clip(min=0).astype(float)
    known = np.where(np.isfinite(attempt.steps.seconds), attempt.steps.seconds.clip(min=0.0), np.inf)
    usual = known[0] if np.isfinite(known[0]) else _usual(np.diff(times), counts[1:])
    first = float(max(span.begin, times[0] - usual * counts[0]))
    found[before] += first - span.begin
    edges = np.concatenate(([first], times))
    left = np.diff(edges)
    left, stalled = _taken(left, edges, stalls)
    found[Use.STALL] += float(stalled.sum())
    saving = np.zeros(len(times) + 1)
    for end, seconds in attempt.saves:
        saving[np.searchsorted(times, end)] += max(0.0, seconds)
    saved = np.minimum(left, saving[:-1])
    found[Use.SAVE] += float(saved.sum())
    left = left - saved
    with np.errstate(invalid="ignore"):
        work = np.minimum(left, np.where(counts > 0, known * counts, 0.0))
    found[Use.OTHER] += float((left - work).sum())
    _add_work(found, work, times, numbers, counts, reached, slow)
    _add_tail(found, Span(float(times[-1]), span.end), after, saving[-1], stalls)


def _usual(seconds: Floats, counts: Floats) -> float:
    """Return the median seconds per step; 0 if no step is timed."""
    timed = counts > 0
    return float(np.median(seconds[timed] / counts[timed])) if timed.any() else 0.0


def _add_work(
    found: dict[Use, float],
    work: Floats,
    times: Floats,
    steps: NDArray[np.int64],
    counts: Floats,
    reached: int,
    slow: Sequence[Slowness],
) -> None:
    """Add the time of steps: repeated ones, and what a straggler costs of the others."""
    repeated = np.clip(reached - (steps - counts), 0.0, counts)
    again = work * np.divide(repeated, counts, out=np.zeros_like(work), where=counts > 0)
    new = work - again
    share: Floats = np.zeros_like(work)
    for slowness in slow:
        inside = (times > slowness.span.begin) & (times <= slowness.span.end)
        share = np.where(inside, np.maximum(share, min(1.0, max(0.0, slowness.share))), share)
    found[Use.RECOMPUTE] += float(again.sum())
    found[Use.STRAGGLER] += float((new * share).sum())
    found[Use.PRODUCTIVE] += float((new * (1.0 - share)).sum())


def _add_tail(found: dict[Use, float], span: Span, after: Use, saving: float, stalls: Sequence[Span]) -> None:
    """Add the time from the last row to the end of the attempt."""
    left = span.end - span.begin
    hung = min(left, sum(stall.within(*span) for stall in stalls))
    saved = min(left - hung, float(saving))
    found[Use.STALL] += hung
    found[Use.SAVE] += saved
    found[after] += left - hung - saved


def _taken(left: Floats, edges: Floats, spans: Sequence[Span]) -> tuple[Floats, Floats]:
    """Return (time that is left of intervals between `edges`, time that `spans` take of each)."""
    taken = np.zeros_like(left)
    for span in spans:
        taken += np.clip(np.minimum(span.end, edges[1:]) - np.maximum(span.begin, edges[:-1]), 0.0, None)
    taken = np.minimum(left, taken)
    return left - taken, taken
