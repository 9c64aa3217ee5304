"""Report of one rank by callbacks: its progress, its metrics, and what they are added to."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from torchdeck.contract.metrics.inside_state import InsideState, write_inside_state
from torchdeck.contract.metrics.progress import ProgressFile, StepTimes
from torchdeck.contract.rank_layout import RankLayout
from torchdeck.contract.run_states import RankPhase
from torchdeck.telemetry.writer import MetricsWriter, as_float

Result = TypeVar("Result")
SLOW_STEPS_EVERY = 16
"""Steps between computations of the 99th percentile of step times, which takes longer than a report."""


class Report:
    """Progress file, metrics and inside.json of this process's rank.

    Attributes:
        stop_file: exists once the ranks should save and end; None: no stop can be requested.
        resume: checkpoint to resume from; None after the first training took it.
    """

    def __init__(
        self, layout: RankLayout, *, stop_file: Path | None = None, resume: Path | None = None
    ) -> None:
        self.stop_file = stop_file
        self.resume = resume
        self._files = layout
        self._progress = ProgressFile(layout.progress)
        self._counted = ProgressFile(layout.counted)
        self._metrics = MetricsWriter(layout.metrics, source="inside")
        self._state = InsideState()
        self._times = StepTimes()
        self._slow_step: float | None = None
        self._begun: float | None = None
        self._steps = 0
        self._step = 0
        self._total: int | None = None
        self._phase = RankPhase.LOADING
        self._saving: float | None = None
        """Monotonic seconds at which the current save began."""
        self._off: set[str] = set()
        self._is_forked = False
        os.register_at_fork(after_in_child=self._switch_off)

    @property
    def trainer(self) -> str:
        """The one that is reported for; empty before one is known."""
        return self._state.trainer

    @property
    def phase(self) -> RankPhase:
        """The last one that was reported."""
        return self._phase

    def guarded(
        self, layer: str, what: str, function: Callable[..., Result], *args: Any, **kwargs: Any
    ) -> Result | None:
        """Call a function that must not disturb the program: after an exception its layer is off.

        Args:
            layer: the trainer or package whose callback this is.
            what: what was being done, for the message.
            function: called with `args` and `kwargs`, unless the layer is off.

        Returns:
            What the function returned; None if it raised, or was not called.
        """
        if self._is_forked or layer in self._off:
            return None
        try:
            return function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - a foreign API may raise anything, and the program goes on
            self._off.add(layer)
            with contextlib.suppress(Exception):
                said = f"{layer}, {what}: {type(error).__name__}: {error}"
                self._change(failures=(*self._state.failures, said))
                if layer == self._state.trainer:
                    self._withdraw()
            return None

    def _withdraw(self) -> None:
        """Take back the progress of the trainer: a step that stays the same would be taken for a hang."""
        for report, path in ((self._progress, self._files.progress), (self._counted, self._files.counted)):
            report.close()
            path.unlink(missing_ok=True)
        self._change(saves_on_stop=False)

    def claim(self, trainer: str) -> None:
        """Report for a trainer from now on.

        Args:
            trainer: its name, for a person.
        """
        self._change(trainer=trainer, counted=False)

    def claims(self, trainer: str, *, over: tuple[str, ...] = (), counted: bool = False) -> bool:
        """Report for a trainer from now on, unless another one does that already.

        Args:
            trainer: its name, for a person.
            over: names of trainers that give way to it.
            counted: its steps are calls of the optimizer; the program may count others.

        Returns:
            Whether it reports.
        """
        if self._state.trainer != trainer:
            if self._state.trainer not in ("", *over):
                return False
            self._change(trainer=trainer, counted=counted)
        return True

    def count(self, step: int, *, total: int | None = None, phase: RankPhase = RankPhase.TRAINING) -> None:
        """Report a step of a program of which phases are not known: it is no hang if that stays the same."""
        self._counted.report(phase, int(step), total=total)

    def saves_on_stop(self, *, saves: bool) -> None:
        """Record whether the trainer polls for the stop file now."""
        if saves != self._state.saves_on_stop:  # called on every step of a loop on Accelerate
            self._change(saves_on_stop=saves)

    def begin_step(self) -> None:
        """Begin to measure the time of an optimizer step."""
        self._begun = time.monotonic()

    def step(self, step: int, total: int | None) -> None:
        """Report a completed optimizer step. Its time is that since the last one, or since `begin_step`."""
        now = time.monotonic()
        if self._begun is not None:
            self._times.add(now - self._begun)
            self._steps += 1
            if self._steps % SLOW_STEPS_EVERY == 1:
                self._slow_step = self._times.slow_step
        self._begun = now
        self._step, self._total = int(step), total
        self._enter(RankPhase.TRAINING)

    def enter(self, phase: RankPhase, *, step: int | None = None, total: int | None = None) -> None:
        """Report a phase, or that it continues."""
        if step is not None:
            self._step, self._total = int(step), total
        if phase is not RankPhase.TRAINING:
            self._begun = None  # a step is not slow because of a save
        self._enter(phase)

    def metrics(self, values: Mapping[str, Any], step: int) -> None:
        """Record those values that are numbers, at full precision."""
        found = ((name, _number(value)) for name, value in values.items())
        numbers = {name: number for name, number in found if number is not None}
        if numbers:
            self._metrics.log(numbers, step=int(step))

    def _enter(self, phase: RankPhase) -> None:
        self._phase = phase
        self._time_save(is_saving=phase is RankPhase.SAVING)
        self._progress.report(phase, self._step, total=self._total, slow_step=self._slow_step)

    def _time_save(self, *, is_saving: bool) -> None:
        """Record how long training waited for a save that is over, as recipes do: goodput counts it."""
        now = time.monotonic()
        if not is_saving and self._saving is not None:
            self.metrics({"save_stall": now - self._saving}, self._step)
        self._saving = (self._saving or now) if is_saving else None

    def _change(self, **changes: Any) -> None:
        state = dataclasses.replace(self._state, **changes)
        if state != self._state:
            self._state = state
            with contextlib.suppress(OSError):  # a full disk is the agent's to report
                write_inside_state(self._files.inside, state)

    def _switch_off(self) -> None:
        """In a forked child, such as a data loader's worker: only the rank itself reports."""
        self._is_forked = True


def _number(value: Any) -> float | None:
    """Return a number as a float; None for texts, lists and histograms."""
    if value.__class__ is float:  # nearly all are, and this is called for each value of each step
        return value
    try:
        return as_float(value)
    except Exception:  # noqa: BLE001 - a foreign __float__ may raise anything
        return None
