"""A rank's output, read as moments of training. Lines that name no step get it from the bars and lines around
them.

Standard library, Python 3.10: the agent reads output with it.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from torchdeck.contract.run_states import RankPhase
from torchdeck.trainers.reading import Reading
from torchdeck.trainers.text.epochs import EpochSteps
from torchdeck.trainers.text.line import Line, is_held_out
from torchdeck.trainers.text.progress_bars import is_cleared
from torchdeck.trainers.text.training_bar import BarPosition, TrainingBar
from torchdeck.trainers.text.user_patterns import LineParser

SLACK = 10.0
"""Seconds by which the recorded times of two streams may differ, on a busy machine."""
PATIENCE = 5.0
"""Seconds that a record waits for a bar before the newest bar's step is taken."""
MOST_HELD = 20_000
"""Records without a step that are kept until the step is known."""
MOST_MARKS = 4096
BAR = "progress bar"
LINES = "printed lines"
_GLUED = re.compile(r"(?:it/s|s/it)\](?=[^\s,\x1b])")
"""A bar, and a line that was written without clearing it."""
THOUSANDTHS = 1000
"""Steps per epoch for records of which nothing but the epoch is ever known."""


@dataclass(frozen=True)
class Printed:
    """A moment of training in the output."""

    reading: Reading
    stream: str
    """`stdout` or `stderr`."""
    end: int
    """Byte after the line in its stream."""
    origin: str
    """`BAR` or `LINES`: where its step comes from."""
    has_own_step: bool = True
    """The line names its step. Otherwise it is the bar's, or that of the line before plus one."""


class _Mark(NamedTuple):
    time: float
    position: BarPosition


class _Held(NamedTuple):
    line: Line
    stream: str
    end: int
    time: float


class OutputReader:
    """Reads the lines of one rank, in the order of each stream. `end` gives what waited."""

    def __init__(self, parser: LineParser, last_step: int | None = None, last_bar: int | None = None) -> None:
        """Create a reader.

        Args:
            parser: parses single lines.
            last_step: step of the last row that an earlier reader returned.
            last_bar: step of the last row that it read from a bar, if what follows that bar is read next.
        """
        self._parser = parser
        self._bars = TrainingBar(last_bar)
        self._epochs = EpochSteps()
        self._cleared: set[str] = set()
        self._marks: deque[_Mark] = deque(maxlen=MOST_MARKS)
        """Positions of the bar each time that a line was written above it."""
        self._drawn: deque[_Mark] = deque(maxlen=MOST_MARKS)
        """Positions of the bar whenever it moved."""
        self._held: deque[_Held] = deque()
        self._pace: float | None = None
        """Steps of an epoch, by the last record whose bar was found."""
        self._pending: Printed | None = None
        """The newest drawing of the bar: its values may still be those of the step before."""
        self._pending_age = 0
        self._ahead = False
        self._last_values: Mapping[str, float] = {}
        """Values of the bar that were returned last, of the step `_last_flushed`."""
        self._last_flushed: int | None = None
        self._last_step = last_step
        self._epoch_steps: float | None = None
        """Steps of an epoch, by the program's last line."""
        self._planned: int | None = None
        """Number of steps, as the program announced it."""
        self._heading: BarPosition | None = None
        """Position that a line without values named, for the lines below it."""

    def read(
        self, text: str, stream: str, end: int, time: float, known_total: int | None = None
    ) -> Iterator[Printed]:
        """Yield the moments that a line completes.

        Args:
            text: the line.
            stream: `stdout` or `stderr`.
            end: byte after the line in its stream.
            time: unix seconds at which it was printed.
            known_total: number of steps, by a source other than the output.
        """
        begin = 0
        for glued in _GLUED.finditer(text):
            yield from self._read_one(text[begin : glued.end()], stream, end, time, known_total)
            begin = glued.end()
        yield from self._read_one(text[begin:], stream, end, time, known_total)

    def _read_one(
        self, text: str, stream: str, end: int, time: float, known_total: int | None
    ) -> Iterator[Printed]:
        """Yield the moments that a line completes to which no bar is glued; arguments are those of `read`."""
        if is_cleared(text):
            self._cleared.add(stream)
            return
        line = self._parser.parse(text)
        if line is None:
            return
        known_total = known_total or self._planned
        if line.total is not None and line.step is None and line.bar is None:
            self._planned = line.total
            yield Printed(Reading(total=line.total, time=time), stream, end, LINES)
        elif line.bar is not None:
            yield from self._bar(line, stream, end, time, known_total)
        elif line.is_record:
            if len(self._held) < MOST_HELD:
                self._held.append(_Held(line, stream, end, time))
            if "train_runtime" in line.values:
                self._epoch_steps = _steps_per_epoch(line, known_total)
        else:
            yield from self._line(line, stream, end, time)

    def settle(self, now: float, epoch_steps: float | None = None) -> Iterator[Printed]:
        """Yield what need not wait any longer; call it after each round of `read`.

        Args:
            now: unix seconds.
            epoch_steps: steps of an epoch, by a source other than the output.
        """
        yield from self._match(now)
        known = epoch_steps or self._epoch_steps
        # a bar may be in output that was not read yet
        if known and not self._drawn and self._held and now - self._held[0].time > PATIENCE:
            yield from self._by_epochs(known, named=True)
        if self._pending is not None:
            self._pending_age += 1
            if self._pending_age > 1:
                yield from self._flush()

    def end(self, epoch_steps: float | None = None) -> Iterator[Printed]:
        """Yield all that still waits: no more output will come. The argument is that of `settle`."""
        yield from self._match(math.inf)
        known = epoch_steps or self._epoch_steps
        yield from self._by_epochs(known or THOUSANDTHS, named=bool(known))
        yield from self._flush()

    def _bar(
        self, line: Line, stream: str, end: int, time: float, known_total: int | None
    ) -> Iterator[Printed]:
        bar = line.bar
        assert bar is not None  # noqa: S101 - the caller's promise
        position = self._bars.take(line, known_total)
        if position is None:
            if (line.stage or self._bars.phase(line) is RankPhase.EVALUATING) and bar.done == bar.total:
                yield from self._held_out_bar(line, stream, end, time)
            else:
                phase = self._bars.phase(line)
                if phase is not None:
                    yield Printed(Reading(time=time, phase=phase), stream, end, BAR)
            return
        if stream in self._cleared:
            self._cleared.discard(stream)
            self._marks.append(_Mark(time, position))
        if not self._drawn or self._drawn[-1].position != position:
            self._drawn.append(_Mark(time, position))
        yield from self._drawing(line, position, stream, end, time)

    def _held_out_bar(self, line: Line, stream: str, end: int, time: float) -> Iterator[Printed]:
        stage = line.stage or "eval"
        values = {
            name if name.startswith((stage, "val", "eval", "test")) else f"{stage}_{name}": value
            for name, value in line.values.items()
            if name != "epoch"
        }
        step = self._newest.step if self._newest is not None else self._last_step
        if values and step is not None:
            reading = Reading(values, step, time=time, phase=RankPhase.TRAINING)
            yield Printed(reading, stream, end, BAR)

    def _drawing(
        self, line: Line, position: BarPosition, stream: str, end: int, time: float
    ) -> Iterator[Printed]:
        values = dict(line.values)
        bar = line.bar
        if (
            bar is not None
            and len(self._drawn) == 1
            and position.step == 0
            and any("loss" in name for name in values)
        ):
            self._ahead = True  # the program sets the values before it counts the step
        before = self._pending
        if before is not None and before.reading.step != position.step + self._ahead:
            yield from self._flush()
            before = None
        step = position.step
        if self._ahead:
            step += 1
            if values == self._last_values or (position.total is not None and step > position.total):
                values = {}
        if before is not None and not values:
            return
        known = before.reading.values if before is not None else self._written_values(position.step)
        if values and _without_epoch(values) == _without_epoch(known):
            return
        reading = Reading(values, step, position.total, position.epoch, time, RankPhase.TRAINING)
        if not values:  # nothing to wait for
            yield Printed(replace(reading, step=position.step), stream, end, BAR)
            return
        self._pending = Printed(reading, stream, end, BAR)
        self._pending_age = 0

    def _written_values(self, step: int) -> Mapping[str, float]:
        """Return the values that were returned for a step by the bar last; none for another step."""
        return self._last_values if step == self._last_flushed else {}

    def _flush(self) -> Iterator[Printed]:
        found, self._pending = self._pending, None
        if found is None:
            return
        values = found.reading.values
        held_out = {name: value for name, value in values.items() if is_held_out(name)}
        # they stay in the bar until the next evaluation
        fresh = {name: value for name, value in held_out.items() if self._last_values.get(name) != value}
        self._last_values = values
        self._last_step = self._last_flushed = found.reading.step
        # rows of their own: a metric in two tables has no order in time
        for part in ({name: values[name] for name in values if name not in held_out}, fresh):
            if part.keys() - {"epoch"} or not values:
                yield replace(found, reading=replace(found.reading, values=part))

    def _line(self, line: Line, stream: str, end: int, time: float) -> Iterator[Printed]:
        yield from self._flush()
        named = self._epochs.take(line)
        if named is not None or not line.values:
            self._heading = named if not line.values else None
        position = named or self._heading or self._beside_bar(line, time) or self._counted(line)
        if line.values or named is not None:
            self._last_step = position.step
            reading = Reading(
                line.values, position.step, position.total, position.epoch, time, RankPhase.TRAINING
            )
            yield Printed(reading, stream, end, LINES, named is not None)

    def _beside_bar(self, line: Line, time: float) -> BarPosition | None:
        """Return the position of the bar at that time."""
        newest = self._at(time)
        if newest is None or line.epoch is None:
            return newest
        return newest._replace(epoch=line.epoch)

    def _counted(self, line: Line) -> BarPosition:
        """Return the position after the last one; held-out values are of the step before them."""
        step = -1 if self._last_step is None else self._last_step
        return BarPosition(max(0, step if line.is_held_out else step + 1), None, line.epoch)

    @property
    def _newest(self) -> BarPosition | None:
        return self._drawn[-1].position if self._drawn else None

    def _at(self, time: float) -> BarPosition | None:
        """Return the position of the bar at a time."""
        found = None
        for mark in reversed(self._drawn):
            found = mark.position
            if mark.time <= time:
                break
        return found

    def _match(self, now: float) -> Iterator[Printed]:
        """Give records their steps: the bar is redrawn below each of them."""
        while self._held:
            held = self._held[0]
            waited = now - held.time > PATIENCE
            position = self._marked(held, waited=waited)
            if position is None and self._drawn and waited:
                position = self._at(held.time)
            if position is None:
                return
            self._held.popleft()
            yield self._placed(held, position)
            while self._held and _is_repeated(held.line, self._held[0].line):
                again = self._held.popleft()
                rest = {
                    name: value for name, value in again.line.values.items() if name not in held.line.values
                }
                yield self._placed(again._replace(line=replace(again.line, values=rest)), position)

    def _marked(self, held: _Held, *, waited: bool) -> BarPosition | None:
        """Return the position of the bar that was redrawn below a record; None if it was not read yet.

        Other lines are written above a bar, too: the redrawn bar whose step fits the record's epoch is taken.
        """
        while self._marks and self._marks[0].time < held.time - SLACK:
            self._marks.popleft()
        near = [mark.position for mark in self._marks if mark.time <= held.time + SLACK]
        epoch = held.line.epoch
        number: int | None = 0
        if self._pace is not None and epoch:
            expected = self._pace * epoch
            allowed = max(0.5, 0.001 * expected)
            fits = (at for at, mark in enumerate(near) if abs(mark.step - expected) <= allowed)
            number = next(fits, 0 if waited else None)
        if not near or number is None:
            return None
        position = near[number]
        for _ in range(number + 1):
            self._marks.popleft()
        self._bars.confirm()
        self._pace = position.step / epoch if epoch else None
        return position

    def _by_epochs(self, epoch_steps: float, *, named: bool) -> Iterator[Printed]:
        """Give records their steps by their epochs, if there never was a bar."""
        for held in self._held:
            step = round((held.line.epoch or 0.0) * epoch_steps)
            yield self._placed(held, BarPosition(step, None, held.line.epoch), named=named)
        self._held.clear()

    def _placed(self, held: _Held, position: BarPosition, *, named: bool = False) -> Printed:
        self._last_step = position.step
        line, phase = held.line, RankPhase.TRAINING
        reading = Reading(line.values, position.step, position.total, line.epoch, held.time, phase)
        return Printed(reading, held.stream, held.end, LINES, named)


def _steps_per_epoch(last: Line, total: int | None) -> float | None:
    """Return the steps of an epoch by the Trainer's last record, in which it says how many steps it did."""
    values = last.values
    steps = total or values.get("train_runtime", 0.0) * values.get("train_steps_per_second", 0.0)
    return round(steps) / last.epoch if last.epoch and steps >= 1 else None


def _is_repeated(line: Line, other: Line) -> bool:
    """Return whether two records are of one moment: LLaMA-Factory prints its own before the Trainer's."""
    shared = [name for name in line.values if "loss" in name and name in other.values]
    return (
        line.values.keys() != other.values.keys()
        and bool(shared)
        and all(math.isclose(line.values[name], other.values[name], rel_tol=1e-3) for name in shared)
        and abs((line.epoch or 0.0) - (other.epoch or 0.0)) < 0.01
    )


def _without_epoch(values: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if name != "epoch"}
