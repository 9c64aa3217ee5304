"""Progress of one rank's script, merged from all that report it: its output, its files, its arguments, the
trainer's own callback. Kept in script.json.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections import deque
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.metrics.script_state import (
    COUNTED,
    LAYERS,
    ORIGIN_LIMIT,
    Origin,
    ScriptState,
    read_script_state,
    write_script_state,
)
from torchdeck.contract.run_states import RankPhase
from torchdeck.trainers.metric_roles import LOSS, Roles
from torchdeck.trainers.reading import Reading

PACE_SECONDS = 300.0
"""Age of the oldest step from which the rate is computed."""
PACE_INTERVAL = 1.0
"""Seconds between the steps that are kept for it."""
WRITE_INTERVAL = 1.0
"""Seconds between two versions of the file."""
MOST_ORIGINS = 64
"""Sources whose steps are kept apart; a program that writes more files than that has one that is newest."""


class _Claim(NamedTuple):
    """The last step and total that one source reported."""

    origin: Origin
    step: int | None
    total: int | None


class ScriptBook:
    """Merges the reports of one rank. Readers call `take`, the agent's loop calls `write`.

    A step and a total are the most trusted layer's. A less trusted layer that is further, such as a progress
    bar beside a file that is written at each save only, counts for the step unless its total contradicts.
    Counted optimizer steps count only if no other layer knows a step.
    """

    def __init__(self, path: Path, roles: Roles | None = None) -> None:
        """Create a book; it continues with what an earlier agent wrote.

        Args:
            path: script.json of the rank (`RankLayout.script`).
            roles: names of metrics; Default: those that are known of trainers.
        """
        self._path = path
        self._roles = roles or Roles()
        self._written = self._state = read_script_state(path) or ScriptState()
        self._claims: dict[Origin, _Claim] = {}
        for fact in ("total", "step"):
            origin = self._state.origins.get(fact)
            if origin is not None:
                total = self._state.total if self._state.origins.get("total") == origin else None
                step = self._state.step if self._state.origins.get("step") == origin else None
                self._claims[origin] = _Claim(origin, step, total)
        self._steps: deque[tuple[float, int]] = deque()
        self._failing = False
        self._due = 0.0

    @property
    def state(self) -> ScriptState:
        """Everything known now."""
        return self._state

    def take(self, reading: Reading, layer: str, origin: str) -> None:
        """Merge one report.

        Args:
            reading: what was reported.
            layer: the reporting layer, one of `LAYERS`.
            origin: where it comes from, for a person: `trainer_state.json`, `progress bar`, `--max_steps`.
        """
        source = Origin(layer, origin[:ORIGIN_LIMIT])
        before = self._claims.get(source)
        step = reading.step if reading.step is not None else before and before.step
        total = reading.total if reading.total is not None else before and before.total
        if (step is not None or total is not None) and (before or len(self._claims) < MOST_ORIGINS):
            self._claims[source] = _Claim(source, step, total)
        origins = dict(self._state.origins)
        if any(self._roles.role_of(name) == LOSS for name in reading.values):
            _prefer(origins, "loss", source)
        epoch = self._state.epoch
        if reading.epoch is not None and _prefer(origins, "epoch", source):
            epoch = reading.epoch
        now = time.time()
        self._decide(origins, epoch, reading.phase, now if reading.time is None else min(reading.time, now))

    def write(self, *, now: bool = False) -> None:
        """Write the file if something has changed. A full disk costs the report, never the agent.

        Args:
            now: not only once a second.
        """
        if self._state == self._written or not (now or time.monotonic() >= self._due):
            return
        self._due = time.monotonic() + WRITE_INTERVAL
        try:
            write_script_state(self._path, self._state)
            self._written, self._failing = self._state, False
        except OSError as error:
            if not self._failing:
                print(f"{self._path}: {error}", file=sys.stderr, flush=True)
            self._failing = True

    def _decide(
        self, origins: dict[str, Origin], epoch: float | None, phase: RankPhase | None, at: float
    ) -> None:
        claims = sorted(self._claims.values(), key=lambda claim: LAYERS.index(claim.origin.layer))
        total = next((claim for claim in claims if claim.total), None)
        step = None
        for claim in claims:
            if claim.step is None or (total is not None and not _agrees(claim, total)):
                continue
            if claim.origin.layer == COUNTED and step is not None:
                continue
            if step is None or claim.step > (step.step or 0):
                step = claim
        if total is not None:
            origins["total"] = total.origin
        if step is not None:
            origins["step"] = step.origin
        old = self._state
        state = dataclasses.replace(
            old,
            step=old.step if step is None else step.step,
            total=old.total if total is None else total.total,
            epoch=epoch,
            phase=phase or old.phase,
            origins=origins,
        )
        if (state.step, state.phase) != (old.step, old.phase):
            if (step is not None and step.origin.layer == COUNTED) != _is_counted(old):
                self._steps.clear()  # counted steps begin at 0 in each process
            state = dataclasses.replace(state, time=max(at, old.time or 0.0), rate=self._rate(state.step, at))
        self._state = state

    def _rate(self, step: int | None, at: float) -> float | None:
        if not step:
            # the time of the first step, or of loading a checkpoint, says nothing of the next ones
            return None
        steps = self._steps
        if steps and step < steps[-1][1]:
            steps.clear()
        if len(steps) == 1 and at <= steps[0][0]:  # many at once, as of a file that was there before: no pace
            steps[0] = (at, step)
        elif len(steps) < 2 or at - steps[-2][0] >= PACE_INTERVAL:
            steps.append((at, step))
        else:
            steps[-1] = (at, step)
        while len(steps) > 2 and at - steps[0][0] > PACE_SECONDS:
            steps.popleft()
        seconds, done = steps[-1][0] - steps[0][0], steps[-1][1] - steps[0][1]
        return done / seconds if seconds > 0 and done > 0 else self._state.rate


def _is_counted(state: ScriptState) -> bool:
    origin = state.origins.get("step")
    return origin is not None and origin.layer == COUNTED


def _agrees(claim: _Claim, total: _Claim) -> bool:
    """Return whether the steps of `claim` can be those of which `total` has the number."""
    if claim.origin != total.origin and claim.total is not None and claim.total != total.total:
        return False
    return claim.step is None or total.total is None or claim.step <= total.total


def _prefer(origins: dict[str, Origin], fact: str, origin: Origin) -> bool:
    """Take `origin` for `fact` unless a more trusted layer reports it; whether it was taken."""
    before = origins.get(fact)
    if before is not None and LAYERS.index(before.layer) < LAYERS.index(origin.layer):
        return False
    origins[fact] = origin
    return True
