"""Comparison of the recorded samples with the planned ones, step by step, in bounded memory."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from torchdeck.contract.layout import RunLayout
from torchdeck.data.sample_log import SampleLog, SampleLogError, SampleRecord
from torchdeck.data.step_order import DataPosition, OrderedStep, StepOrder
from torchdeck.runs.audit.planned_steps import (
    CannotRecomputeError,
    KeptSteps,
    PlannedAttempt,
    RecordedAttempt,
    kept_steps,
    planned_attempt,
)
from torchdeck.runs.audit.result import SamplesCheck

SENTENCES = 8
"""Number of defects reported in full; a faulty run may have one per step."""
_WINDOW = 1 << 14
"""Records compared at once, over all ranks."""

Records = Mapping[int, Sequence[SampleRecord]]
"""By rank."""


@dataclass(frozen=True)
class Limits:
    """Limits on how much of a large run is compared: a few seconds' worth."""

    records: int = 100_000
    """Samples of all ranks together."""
    samples: int = 20_000_000
    """Samples over all ranks; a data set with more is not compared, as its order alone would take as long."""

    @classmethod
    def none(cls) -> Limits:
        """Return limits that compare everything, however long that takes."""
        return cls(sys.maxsize, sys.maxsize)


@dataclass
class Totals:
    """Used and planned amounts of each rank in the compared steps; by rank."""

    planned_samples: dict[int, int] = field(default_factory=dict)
    samples: dict[int, int] = field(default_factory=dict)
    tokens: dict[int, float] = field(default_factory=dict)

    def add(self, rank: int, planned: int, record: SampleRecord) -> None:
        self.planned_samples[rank] = self.planned_samples.get(rank, 0) + planned
        self.samples[rank] = self.samples.get(rank, 0) + len(record.ids)
        self.tokens[rank] = self.tokens.get(rank, 0.0) + record.tokens


class SampleAudit:
    """Audit of the samples of a run.

    Args:
        layout: layout of the run.
        attempts: attempts that left records, in order.
        finished: the run is reported to have reached its end, so every rank must have recorded every step.
        ended_early: step at which training was complete before its last, if it was.
        limits: where to stop.

    Attributes:
        totals: filled by `check`.
        partly: the limits were reached.
        end: planned last step of the newest attempt that was compared; None before `check`, or unknown.
    """

    def __init__(
        self,
        layout: RunLayout,
        attempts: Sequence[RecordedAttempt],
        *,
        finished: bool,
        ended_early: int | None = None,
        limits: Limits,
    ) -> None:
        self.totals = Totals()
        self.partly = False
        self.end: int | None = None
        self._layout = layout
        self._attempts = attempts
        self._finished = finished
        self._ended_early = ended_early
        self._records_left = limits.records
        self._samples_left = limits.samples
        self._defects: list[str] = []
        self._unknown: list[str] = []
        self._first: int | None = None
        self._last: int | None = None
        self._epochs = EpochIds()

    def check(self) -> SamplesCheck:
        """Compare everything in the history of the weights."""
        kept = kept_steps(self._attempts)
        position: DataPosition | None = None
        for part in kept:
            position = self._part(part, position)
            if position is None or self.partly:
                break
        more = len(self._defects) - SENTENCES
        if more > 0:
            self._defects[SENTENCES:] = [f"and {more} more differences"]
        return SamplesCheck(
            defects=tuple(self._defects),
            unknown=tuple(self._unknown),
            first_step=self._first,
            last_step=self._last,
            epochs=self._epochs.whole,
            samples=sum(self.totals.samples.values()),
            discarded_steps=self._discarded(kept),
        )

    def _part(self, part: KeptSteps, before: DataPosition | None) -> DataPosition | None:
        """Compare the steps of one attempt that count. Return the position after them, None if it is lost."""
        attempt = part.attempt
        self._unknown += attempt.problems
        if not attempt.logs:
            return None
        try:
            planned = planned_attempt(self._layout, attempt.number, attempt.header)
        except CannotRecomputeError as error:
            self._unknown.append(f"the plan of attempt {attempt.number} is unknown: {error}")
            return None
        self.end = planned.end
        if planned.order.size > self._samples_left:
            self.partly = True
            return None
        start = planned.start.to_json()
        if before is None:
            self._epochs.begin(planned.start)
        elif before.to_json() != start:
            self._defects.append(
                f"attempt {attempt.number} continued from {_said(start)}, and what counts before it ends at "
                f"{_said(before.to_json())}"
            )
        return self._walk(part, planned)

    def _walk(self, part: KeptSteps, planned: PlannedAttempt) -> DataPosition | None:
        readers = {rank: RankRecords(log) for rank, log in part.attempt.logs.items()}
        steps, position = planned.order.steps(planned.start), planned.start
        end = part.upto
        if end is None:
            end = planned.end if self._ended_early is None else min(planned.end, self._ended_early)
        while position.step < end:
            wanted = min(max(1, _WINDOW // len(readers)), self._records_left // len(readers))
            if wanted == 0 or self._samples_left < 0:
                self.partly = True
                return position
            wanted = min(wanted, end - position.step)
            taken = {rank: reader.take(wanted) for rank, reader in readers.items()}
            self._unknown += [reader.problem for reader in readers.values() if reader.problem]
            reached = min(map(len, taken.values()))
            # no further than was recorded: a seeded order has no end
            some = list(itertools.islice(steps, reached))
            self._compare(some, taken, planned.order, whole=len(taken) == part.attempt.header.world_size)
            position = some[-1].after if some else position
            if reached < wanted:
                self._ends(part, position.step, end, {rank: len(of_rank) for rank, of_rank in taken.items()})
                return None
        if part.upto is None and any(reader.take(1) for reader in readers.values()):
            self._defects.append(f"ranks recorded steps after the last one that was planned, {end}")
        return position

    def _compare(
        self, planned: Sequence[OrderedStep], taken: Records, order: StepOrder, *, whole: bool
    ) -> None:
        for index, step in enumerate(planned):
            records = {rank: of_rank[index] for rank, of_rank in taken.items()}
            for rank, record in records.items():
                parts = step.parts(rank)
                self.totals.add(rank, sum(map(len, parts)), record)
                difference = _difference(rank, step, parts, record)
                if difference:
                    self._defects.append(difference)
            self._records_left -= len(records)
            self._samples_left -= step.samples
            if whole:
                self._end_epoch(step, [record.ids for record in records.values()], order)
        if planned:
            self._first = self._first or planned[0].after.step
            self._last = planned[-1].after.step

    def _end_epoch(self, step: OrderedStep, ids: Sequence[npt.NDArray[Any]], order: StepOrder) -> None:
        self._epochs.add(ids)
        if step.after.epoch > step.epoch:
            wrong = self._epochs.end(order, step.epoch)
            if wrong:
                self._defects.append(wrong)

    def _ends(self, part: KeptSteps, step: int, end: int, taken: Mapping[int, int]) -> None:
        """Report ranks that recorded nothing after `step`, though steps up to `end` were planned.

        Args:
            part: steps that were compared.
            step: last step recorded by every rank.
            end: last planned step.
            taken: records by rank, of those compared at once.
        """
        short = [rank for rank, count in taken.items() if count == min(taken.values())]
        # if training was ended, some ranks may not yet have written its last step
        if part.upto is None and not self._finished and max(taken.values()) <= min(taken.values()) + 1:
            return
        who = f"rank {short[0]}" if len(short) == 1 else f"{len(short)} ranks"
        upto = "on" if part.upto is None and not self._finished else f"to {end}"
        self._unknown.append(
            f"{who} left no record of steps {step + 1} {upto} in attempt {part.attempt.number}, which "
            "are needed"
        )

    def _discarded(self, kept: Sequence[KeptSteps]) -> int:
        """Return the recorded steps that were repeated later, by what one rank of each attempt recorded after
        them.
        """
        upto = {part.attempt.number: part.upto for part in kept}
        total = 0
        for attempt in self._attempts:
            limit = upto.get(attempt.number, attempt.start)
            if limit is not None and attempt.logs and not self.partly:
                rest = RankRecords(next(iter(attempt.logs.values()))).take(_WINDOW)
                total += sum(record.step > limit for record in rest)
        return total


def _difference(rank: int, step: OrderedStep, parts: Sequence[npt.NDArray[Any]], record: SampleRecord) -> str:
    """Return how a record differs from its step, as a sentence; empty if it does not."""
    number, planned = step.after.step, np.concatenate(parts)
    counts = [len(part) for part in parts]
    if (record.step, record.epoch) != (number, step.epoch):
        return (
            f"rank {rank} recorded step {record.step} of epoch {record.epoch} where step {number} of epoch "
            f"{step.epoch} was planned"
        )
    if len(record.ids) != len(planned):
        return (
            f"rank {rank} used {len(record.ids)} samples in step {number} where {len(planned)} were planned"
        )
    if not np.array_equal(record.ids, planned):
        place = int(np.flatnonzero(record.ids != planned)[0])
        used = f"rank {rank} used sample {record.ids[place]} in step {number}"
        return f"{used} where sample {planned[place]} was planned"
    if record.counts.tolist() != counts:
        return f"rank {rank} used microbatches of {record.counts.tolist()} in step {number}, not of {counts}"
    return ""


def _said(position: Mapping[str, Any]) -> str:
    """Return `epoch 0, consumed 80, step 10`."""
    items = ((name, value) for name, value in position.items() if name != "v")
    return ", ".join(f"{name} {value[:12] if isinstance(value, str) else value}" for name, value in items)


class RankRecords:
    """Reader of one rank's log that keeps its position.

    Attributes:
        problem: why no more of it can be read, as a sentence; empty while it can.
    """

    def __init__(self, log: SampleLog) -> None:
        self._log = log
        self.problem = ""

    def take(self, count: int) -> list[SampleRecord]:
        """Return the next records, at most `count`; fewer if the log ends or is damaged."""
        records: list[SampleRecord] = []
        if self.problem:
            return records
        try:
            for record in self._log.records():
                records.append(record)
                if len(records) == count:
                    break
        except (SampleLogError, OSError) as error:
            self.problem = str(error)
        return records


_WITHIN_EPOCH = ("consumed", "microbatches")
"""Keys of a position that hold the used part of an epoch."""


class EpochIds:
    """Collects the ids of one epoch after another.

    Attributes:
        whole: epochs in which each sample was used exactly once.
    """

    def __init__(self) -> None:
        self.whole = 0
        self._ids: list[npt.NDArray[Any]] = []
        self._gathers = False

    def begin(self, start: DataPosition) -> None:
        """Begin at `start`; an epoch that began earlier cannot be judged."""
        self._ids.clear()
        self._gathers = not any(start.to_json().get(name) for name in _WITHIN_EPOCH)

    def add(self, ids: Iterable[npt.NDArray[Any]]) -> None:
        """Add the ids that all ranks used in one step."""
        if self._gathers:
            self._ids.extend(ids)

    def end(self, order: StepOrder, epoch: int) -> str:
        """Return what is wrong with the epoch that ends here, as a sentence; empty if nothing is."""
        gathered, self._gathers = self._gathers, True
        if not gathered:
            return ""
        ids = np.concatenate(self._ids)
        self._ids.clear()
        times = np.bincount(ids, minlength=order.size)
        twice = np.flatnonzero(times > 1)
        missing = order.epoch_samples(epoch) - np.count_nonzero(times)
        if len(twice):
            more = f", and {len(twice) - 1} others more than once" if len(twice) > 1 else ""
            return f"sample {twice[0]} was used {times[twice[0]]} times in epoch {epoch}{more}"
        if missing:
            first = f", such as sample {np.argmin(times)}" if order.epoch_samples(epoch) == order.size else ""
            return f"{missing} samples were never used in epoch {epoch}{first}"
        self.whole += 1
        return ""
