"""Properties of the scheduler over random histories: runs arrive, start, and end as they like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from torchdeck.queue.scheduling.ask import Ask, Gpu, Machine, Places, Unit
from torchdeck.queue.scheduling.placement import place, usable
from torchdeck.queue.scheduling.scheduler import Limits, Running, Schedule, Waiting, ordered, schedule

NAMES = ("a", "b", "c")
LIMITS = Limits(per_user=3, per_tag={"sweep": 1})


@dataclass(frozen=True)
class Job:
    """One entry, when it arrives, and how long it really takes."""

    entry: Waiting
    arrives: float
    length: float


@dataclass
class History:
    """A queue over time, and what has happened to each job."""

    machines: Sequence[Machine]
    jobs: Sequence[Job]
    limits: Limits = LIMITS
    began: dict[str, tuple[float, Places]] = field(default_factory=dict)
    rounds: list[tuple[float, list[Waiting], list[Running], Schedule]] = field(default_factory=list)

    def play(self) -> None:
        """Schedule at every arrival and end until nothing happens any more."""
        now: float | None = 0.0
        while now is not None:
            waiting = [
                job.entry for job in self.jobs if job.arrives <= now and job.entry.id not in self.began
            ]
            running = [self._running(job) for job in self._active(now)]
            found = schedule(waiting, self.machines, running, now, self.limits)
            self.rounds.append((now, waiting, running, found))
            self.began.update((name, (now, places)) for name, places in found.starts.items())
            now = min((time for time in self._times() if time > now), default=None)

    def _active(self, now: float) -> Iterator[Job]:
        yield from (job for job in self.jobs if job.entry.id in self.began and self.end(job) > now)

    def end(self, job: Job) -> float:
        return self.began[job.entry.id][0] + job.length

    def _running(self, job: Job) -> Running:
        entry, (begin, places) = job.entry, self.began[job.entry.id]
        ends = None if entry.limit is None else begin + entry.limit
        return Running(entry.id, places, entry.user, entry.tags, ends)

    def _times(self) -> Iterator[float]:
        for job in self.jobs:
            yield job.arrives
            if job.entry.id in self.began:
                yield self.end(job)


machines = st.lists(
    st.builds(
        lambda gpus, slots: (gpus, slots),
        st.lists(st.sampled_from(["H100", "T4"]), max_size=4),
        st.integers(1, 2),
    ),
    min_size=1,
    max_size=3,
).map(
    lambda made: [
        Machine(name, tuple(Gpu(index, "", model, 1) for index, model in enumerate(gpus)), slots)
        for name, (gpus, slots) in zip(NAMES, made, strict=False)
    ]
)
asks = st.builds(
    Ask,
    st.permutations(NAMES).flatmap(lambda names: st.integers(1, 3).map(lambda most: tuple(names[:most]))),
    count=st.sampled_from([1, 1, 1, 2]),
    gpus=st.sampled_from([0, 1, 1, 2, 3, None]),
    model=st.sampled_from(["", "", "T4"]),
    or_cpu=st.booleans(),
)


@st.composite
def jobs(draw: st.DrawFn, *, exact: bool = False, at_once: bool = False) -> list[Job]:
    """Draw jobs; `exact`: each takes as long as its limit; `at_once`: all arrive at the beginning."""
    made = []
    for number in range(draw(st.integers(1, 12))):
        length = float(draw(st.integers(1, 8)))
        limit = length if exact else draw(st.sampled_from([None, length, length + 3]))
        entry = Waiting(
            f"q{number}",
            draw(asks),
            priority=draw(st.sampled_from([0, 0, 1])),
            position=number,
            user=draw(st.sampled_from(["ann", "bob"])),
            tags=draw(st.sampled_from([(), ("sweep",)])),
            limit=limit,
        )
        made.append(Job(entry, 0.0 if at_once else float(draw(st.integers(0, 10))), length))
    return made


def units(history: History, places: Places) -> list[Unit]:
    """Return the GPUs of places; a CPU slot as number -1."""
    return [Unit(node, number) for node, gpus in places for number in gpus or (-1,)]


@given(machines, jobs())
def test_nothing_is_used_twice_or_where_it_may_not_be(machines: list[Machine], jobs: list[Job]) -> None:
    history = History(machines, jobs)
    history.play()
    slots = {machine.name: machine.slots for machine in machines}
    for now, *_ in history.rounds:
        active = [job for job in jobs if job.entry.id in history.began]
        held = [
            unit
            for job in active
            if history.began[job.entry.id][0] <= now < history.end(job)
            for unit in units(history, history.began[job.entry.id][1])
        ]
        for unit in set(held):
            assert held.count(unit) <= (slots[unit.node] if unit.is_slot else 1)
        for user in ("ann", "bob"):
            mine = [job for job in active if job.entry.user == user]
            assert sum(history.began[job.entry.id][0] <= now < history.end(job) for job in mine) <= 3
    of = {machine.name: machine for machine in machines}
    for job in jobs:
        if job.entry.id in history.began:
            allowed = {Unit(unit.node, max(unit.number, -1)) for unit in usable(job.entry.ask, of)}
            assert allowed.issuperset(units(history, history.began[job.entry.id][1]))


@given(machines, jobs())
def test_no_entry_starves(machines: list[Machine], jobs: list[Job]) -> None:
    history = History(machines, jobs)
    history.play()
    of = {machine.name: machine for machine in machines}
    for job in jobs:
        fits = place(job.entry.ask, of, lambda _unit: True) is not None
        assert (job.entry.id in history.began) == fits
        if not fits:
            why = history.rounds[-1][3].waits[job.entry.id].why
            assert "never fits" in why or "unknown node" in why


@given(machines, jobs())
def test_order_is_kept(machines: list[Machine], jobs: list[Job]) -> None:
    """Of two entries that ask for the same and have no limits, the first in order starts first."""
    history = History(machines, jobs)
    history.play()
    for now, waiting, _, found in history.rounds:
        order = ordered(waiting)
        for at, entry in enumerate(order):
            if entry.id not in found.starts or entry.limit is not None:
                continue
            started = set(units(history, history.began[entry.id][1]))
            for ahead in order[:at]:
                held_back = "limit" in found.waits[ahead.id].why if ahead.id in found.waits else True
                fits = place(ahead.ask, {each.name: each for each in machines}, lambda _unit: True)
                if held_back or fits is None:
                    continue
                could = {
                    Unit(unit.node, max(unit.number, -1))
                    for unit in usable(ahead.ask, {each.name: each for each in machines})
                }
                assert not started & could, (now, entry, ahead)


@given(machines, jobs())
def test_backfill_delays_nobody(machines: list[Machine], jobs: list[Job]) -> None:
    """Each round again, with what it started running: certain starts are as early as before."""
    history = History(machines, jobs)
    history.play()
    for now, waiting, running, found in history.rounds:
        by_id = {entry.id: entry for entry in waiting}
        started = [
            Running(
                name,
                places,
                by_id[name].user,
                by_id[name].tags,
                None if (limit := by_id[name].limit) is None else now + limit,
            )
            for name, places in found.starts.items()
        ]
        left = [entry for entry in waiting if entry.id not in found.starts]
        again = schedule(left, machines, [*running, *started], now, LIMITS)
        assert not again.starts
        for name, wait in found.waits.items():
            assert again.waits[name].certain == wait.certain


@given(machines, jobs(exact=True, at_once=True))
def test_certain_starts_are_kept(machines: list[Machine], jobs: list[Job]) -> None:
    """If every run takes as long as its limit, an entry starts no later than it was first promised."""
    history = History(machines, jobs, Limits())
    history.play()
    promised: dict[str, float] = {}
    for _, _, _, found in history.rounds:
        for name, wait in found.waits.items():
            if wait.certain is not None:
                promised.setdefault(name, wait.certain)
    for name, certain in promised.items():
        assert history.began[name][0] <= certain
