"""From the queue, the machines and the runs that are known to a schedule: plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from torchdeck.queue.entry import SUCCEEDED, AfterRun, Condition, Entry, Stage
from torchdeck.queue.scheduling.ask import Ask, Machine
from torchdeck.queue.scheduling.scheduler import After, Before, Running, Schedule, Waiting, schedule
from torchdeck.queue.state import Queue


class RunNow(NamedTuple):
    """State of a run; times in seconds since the epoch."""

    state: str
    is_over: bool
    started: float | None = None
    ended: float | None = None
    why: str = ""
    refused: bool = False
    """Whether it did not start because another run had its devices."""


Runs = Mapping[str, RunNow | None]
"""Run id → its state; None: there is no such run."""


class Situation(NamedTuple):
    """All that decides which entries start."""

    queue: Queue
    asks: Mapping[str, Ask]
    """Entry → what it asks for, with names of nodes."""
    machines: Sequence[Machine]
    others: Sequence[Running]
    """Holders of devices that are not runs of the queue."""
    runs: Runs
    """Runs of entries, and those that entries wait for."""
    held: Mapping[str, str]
    """Entry → why the server does not start it now."""


def decide(situation: Situation, now: float) -> Schedule:
    """Return which entries start, and why the others wait.

    Args:
        situation: the queue, the machines and the runs.
        now: seconds since the epoch.
    """
    queue = situation.queue
    waiting = [_waiting(entry, situation) for entry in queue.waiting()]
    running = [_running(entry, situation) for entry in queue.entries if entry.has_devices]
    return schedule(waiting, situation.machines, [*running, *situation.others], now, queue.limits.runs)


def wanted_runs(queue: Queue) -> Iterator[str]:
    """Yield the ids of runs whose state matters now."""
    known = {entry.id: entry for entry in queue.entries}
    for entry in queue.entries:
        if entry.stage is Stage.RUNNING:
            yield entry.run
        elif entry.stage is Stage.WAITING:
            for after in entry.after:
                first = known.get(after.run)
                if first is None:
                    yield after.run
                elif first.is_over:  # its run may be resumed
                    yield first.run


def expected_length(queue: Queue, entry: Entry) -> float | None:
    """Return the length of earlier runs with the name of an entry, in seconds; None if there are none."""
    lengths = [
        each.ended - each.begun
        for each in queue.entries
        if each.name == entry.name and each.outcome == SUCCEEDED and each.ended and each.begun
    ]
    return median(lengths) if lengths else entry.expected


def _waiting(entry: Entry, situation: Situation) -> Waiting:
    held = situation.held.get(entry.id, "")
    if entry.paused:
        held = f"it is paused: {entry.note}" if entry.note else "it is paused"
    return Waiting(
        entry.id,
        situation.asks[entry.id],
        entry.priority,
        entry.position,
        entry.user,
        entry.tags,
        tuple(_after(after, situation) for after in entry.after),
        held,
        entry.limit,
        expected_length(situation.queue, entry),
    )


def _running(entry: Entry, situation: Situation) -> Running:
    run = situation.runs.get(entry.run)
    begun = (None if run is None else run.started) or entry.begun
    length = expected_length(situation.queue, entry)
    return Running(
        entry.id,
        entry.places,
        entry.user,
        entry.tags,
        None if begun is None or entry.limit is None else begun + entry.limit,
        None if begun is None or length is None else begun + length,
    )


def _after(after: AfterRun, situation: Situation) -> After:
    entry = next((each for each in situation.queue.entries if each.id == after.run), None)
    if entry is not None:
        is_over, outcome = entry.is_over, entry.outcome
        run = situation.runs.get(entry.run)
        if is_over and run is not None:  # it may have been resumed since
            is_over, outcome = run.is_over, run.state
    else:
        run = situation.runs.get(after.run)
        if run is None:
            return After(f"it is to start after {after.run}, which does not exist any more", Before.BROKEN)
        is_over, outcome = run.is_over, run.state
    if not is_over:
        until = "succeeded" if after.condition is Condition.SUCCEEDED else "ended"
        return After(f"it waits until {after.run} has {until}", Before.PENDING)
    if after.condition is Condition.SUCCEEDED and outcome != SUCCEEDED:
        return After(f"{after.run} had to succeed first, and it is {outcome}", Before.BROKEN)
    return After("", Before.MET)
