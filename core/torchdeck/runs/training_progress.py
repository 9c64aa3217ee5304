"""Progress of training, from the run's view and its metrics, if any."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.script_state import ScriptState
from torchdeck.quantities import rate, size
from torchdeck.runs.script_progress import roles_of_run, script_state
from torchdeck.runs.state import RankView
from torchdeck.runs.training_progress_estimates import seconds_a_step, time_left, total_steps
from torchdeck.runs.view import RunView
from torchdeck.trainers.roles import HELDOUT_LOSS, LOSS, MEMORY, SAMPLES, STEP_TIME, TOKENS, Roles

if TYPE_CHECKING:
    from torchdeck.metrics import Latest, RunMetrics

CURVE_COLUMNS = 48
"""Points of the small curve in a list of runs."""
SERIES = (LOSS, HELDOUT_LOSS, TOKENS, SAMPLES, STEP_TIME, MEMORY)
"""Roles of the metrics that are shown, whatever the program calls them."""


@dataclass(frozen=True)
class TrainingProgress:
    """Progress of rank 0; None if unknown. Durations in seconds."""

    phase: str
    step: int | None
    total: int | None
    loss: float | None = None
    heldout_loss: float | None = None
    tokens_per_s: float | None = None
    eta: float | None = None
    memory_bytes: float | None = None
    """Memory of the rank that uses most."""
    checkpoint_step: int | None = None
    samples_per_s: float | None = None
    epoch: float | None = None
    """Epochs completed by a script; None for a recipe."""

    @property
    def throughput(self) -> str:
        """`12.3k tokens/s`, or samples if no tokens are counted; empty if neither is."""
        if self.tokens_per_s is not None:
            return f"{rate(self.tokens_per_s)} tokens/s"
        return "" if self.samples_per_s is None else f"{rate(self.samples_per_s)} samples/s"

    def to_json(self) -> dict[str, Any]:
        """Return its fields; null for numbers that are not finite, which JSON cannot represent."""
        fields = dataclasses.asdict(self).items()
        return {name: None if _is_odd(value) else value for name, value in fields}

    def text(self, width: int | None = None) -> str:
        """Return `step 120/300  loss 2.4131  12.3k tokens/s  ETA 1 min 20 s  memory 512.0 MiB  checkpoint
        100`.

        With a `width` in characters, wider text is broken between two of these.
        """
        lines = [""]
        for part in self._parts():
            longer = f"{lines[-1]}  {part}" if lines[-1] else part
            if width is None or len(longer) <= width or not lines[-1]:
                lines[-1] = longer
            else:
                lines.append(part)
        return "\n".join(lines)

    def _parts(self) -> list[str]:
        total = "" if self.total is None else f"/{self.total}"
        parts = [self.phase if self.step is None else f"step {self.step}{total}"]
        if self.epoch is not None:
            parts.append(f"epoch {self.epoch:.4g}")
        if self.loss is not None:
            parts.append(f"loss {self.loss:.4f}")
        if self.heldout_loss is not None:
            parts.append(f"held-out loss {self.heldout_loss:.4f}")
        if self.throughput:
            parts.append(self.throughput)
        if self.eta is not None and self.step != self.total:
            parts.append(f"ETA {time_left(self.eta)}")
        if self.memory_bytes is not None:
            parts.append(f"memory {size(self.memory_bytes)}")
        if self.checkpoint_step is not None:
            parts.append(f"checkpoint {self.checkpoint_step}")
        if self.step is not None and self.phase not in ("training", "starting", ""):
            parts.append(self.phase)
        return parts


class ProgressReader:
    """Reads the metrics of a run that has any; numpy is not imported before."""

    def __init__(self, layout: RunLayout) -> None:
        self._layout = layout
        self._metrics: RunMetrics | None = None
        self._roles = Roles()
        self._names: dict[str, str] = {}
        """Role → the metric that has it."""
        self._total: int | None = None
        self._looked_for_total = False

    def loss_curve(self, columns: int = CURVE_COLUMNS) -> tuple[float, ...]:
        """Return the training loss over the run's steps in `columns` points, as of the last `read`; else
        empty.

        A point is the midpoint of the lowest and highest loss there; NaN if none is finite.
        """
        metrics, name = self._metrics, self._names.get(LOSS, "")
        if metrics is None or not metrics.ranks(name):
            return ()
        rank = metrics.ranks(name)[0]
        extent = metrics.extent(name, rank)
        if extent is None:
            return ()
        window = metrics.window(name, rank, *extent, columns)
        # Python's numbers: numpy's warn when infinities are added
        ends = zip(window.low.tolist(), window.high.tolist(), strict=True)
        middles = (low / 2 + high / 2 for low, high in ends)
        return tuple(value if math.isfinite(value) else math.nan for value in middles)

    def read(self, view: RunView) -> TrainingProgress | None:
        """Return the current progress; None while nothing is known."""
        rows = self._rows()
        leader = _leader(view)
        script = None if view.kind == "recipe" else script_state(self._layout, view.world_size or 1)
        known = (
            rows or any(rank.step for rank in view.ranks) or (script is not None and script.step is not None)
        )
        if not known:
            # loading and compiling may take minutes; the state already shows "starting"
            if leader is None or leader.phase in ("", "starting") or view.kind != "recipe" or view.is_over:
                return None
            return TrainingProgress(leader.phase, None, None)
        step, total = _step_of(rows, leader, script), self._total_of(leader, script)
        # one object for every NaN: only that compares equal between two polls
        values = {role: math.nan if math.isnan(row.value) else row.value for role, row in rows.items()}
        resident = [rank.rss_bytes for rank in view.ranks if rank.rss_bytes is not None]
        left = math.nan
        if total is not None and not view.is_over:
            left = (total - step) * (self._pace(script) or values.get(STEP_TIME) or math.nan)
        return TrainingProgress(
            phase=leader.phase if leader is not None and not view.is_over else "",
            step=step,
            total=total,
            loss=values.get(LOSS),
            heldout_loss=values.get(HELDOUT_LOSS),
            tokens_per_s=values.get(TOKENS),
            samples_per_s=values.get(SAMPLES),
            eta=left if math.isfinite(left) and left >= 0 else None,
            memory_bytes=values.get(MEMORY, max(resident, default=None)),
            checkpoint_step=view.checkpoint.step if view.checkpoint is not None else None,
            epoch=None if script is None else script.epoch,
        )

    def _total_of(self, leader: RankView | None, script: ScriptState | None) -> int | None:
        """Return the total steps. The heartbeat is gone once the run is over; the disk is read once."""
        if leader is not None and leader.total is not None:
            self._total = leader.total
        elif script is not None and script.total is not None:
            self._total = script.total
        if self._total is None and not self._looked_for_total:
            self._looked_for_total = True
            self._total = total_steps(self._layout)
        return self._total

    def _pace(self, script: ScriptState | None) -> float | None:
        """Return the seconds per step: a script's own times, or those of its rows."""
        if script is not None and script.rate:
            return 1.0 / script.rate
        for role in (STEP_TIME, LOSS) if script is not None else (STEP_TIME,):
            name = self._names.get(role, "")
            if self._metrics is not None and self._metrics.ranks(name):
                return seconds_a_step(self._metrics, name, self._metrics.ranks(name)[0])
        return None

    def _rows(self) -> dict[str, Latest]:
        """Return the newest row of each series for its first rank; for memory, for the rank that uses
        most.
        """
        if self._metrics is None:
            if not any(self._layout.attempts.glob("*/ranks/*/metrics/*")):
                return {}
            from torchdeck.metrics import RunMetrics

            self._metrics = RunMetrics(self._layout.root)
            self._roles = roles_of_run(self._layout)
        self._metrics.refresh()
        names = self._metrics.names()
        chosen = {role: self._roles.choose(role, names) for role in SERIES}
        self._names = {role: name for role, name in chosen.items() if name is not None}
        found = {}
        for role, name in self._names.items():
            latest = [self._metrics.latest(name, rank) for rank in self._metrics.ranks(name)]
            rows = [row for row in latest if row is not None]
            if rows:
                found[role] = _most(rows) if role == MEMORY else rows[0]
        return found


def _leader(view: RunView) -> RankView | None:
    """Return the rank that reports: the first, or of a script the first that counts steps."""
    first = view.ranks[0] if view.ranks else None
    if first is None or first.step or view.kind == "recipe":
        return first
    return next((rank for rank in view.ranks if rank.step), first)


def _step_of(rows: Mapping[str, Latest], leader: RankView | None, script: ScriptState | None) -> int:
    """Return the newest step. The heartbeat is a second old, and gone at the end: metrics may be newer.

    A script's rows may be numbered by something else than steps: they count only if nothing else does.
    """
    said = leader.step or 0 if leader is not None else 0
    if script is not None and script.step is not None:
        return max(said, script.step)
    return max([row.step for row in rows.values()] + [said])


def _most(rows: list[Latest]) -> Latest:
    """Return the largest of the newest attempt's ranks: a rank that was given up uses nothing any more."""
    newest = max(row.attempt for row in rows)
    return max((row for row in rows if row.attempt == newest), key=attrgetter("value"))


def _is_odd(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
