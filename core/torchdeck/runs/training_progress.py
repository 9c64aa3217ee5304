"""Progress of training, from the run's view and its metrics, if any."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from torchdeck.contract.layout import RunLayout
from torchdeck.quantities import rate, size
from torchdeck.runs.state import RankView
from torchdeck.runs.training_progress_estimates import seconds_a_step, time_left, total_steps
from torchdeck.runs.view import RunView

if TYPE_CHECKING:
    from torchdeck.metrics import Latest, RunMetrics

LOSS = "loss"
CURVE_COLUMNS = 48
"""Points of the small curve in a list of runs."""
SERIES = ("loss", "heldout_loss", "tokens_per_s", "samples_per_s", "step_time", "memory_bytes")


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
        self._total: int | None = None
        self._looked_for_total = False

    def loss_curve(self, columns: int = CURVE_COLUMNS) -> tuple[float, ...]:
        """Return the training loss over the run's steps in `columns` points, as of the last `read`; else
        empty.

        A point is the midpoint of the lowest and highest loss there; NaN if none is finite.
        """
        metrics = self._metrics
        if metrics is None or not metrics.ranks(LOSS):
            return ()
        rank = metrics.ranks(LOSS)[0]
        extent = metrics.extent(LOSS, rank)
        if extent is None:
            return ()
        window = metrics.window(LOSS, rank, *extent, columns)
        # Python's numbers: numpy's warn when infinities are added
        ends = zip(window.low.tolist(), window.high.tolist(), strict=True)
        middles = (low / 2 + high / 2 for low, high in ends)
        return tuple(value if math.isfinite(value) else math.nan for value in middles)

    def read(self, view: RunView) -> TrainingProgress | None:
        """Return the current progress; None while nothing is known."""
        rows = self._rows()
        leader = view.ranks[0] if view.ranks else None
        if not rows and not any(rank.step for rank in view.ranks):
            # loading and compiling may take minutes; the state already shows "starting"
            if leader is None or leader.phase in ("", "starting") or view.kind != "recipe" or view.is_over:
                return None
            return TrainingProgress(leader.phase, None, None)
        # the heartbeat is a second old, and gone at the end: metrics may be newer
        steps = [row.step for row in rows.values()] + [leader.step or 0 if leader is not None else 0]
        step, total = max(steps), self._total_of(leader)
        # one object for every NaN: only that compares equal between two polls
        values = {name: math.nan if math.isnan(row.value) else row.value for name, row in rows.items()}
        resident = [rank.rss_bytes for rank in view.ranks if rank.rss_bytes is not None]
        left = math.nan
        if total is not None and not view.is_over:
            left = (total - step) * (self._pace() or values.get("step_time") or math.nan)
        return TrainingProgress(
            phase=leader.phase if leader is not None and not view.is_over else "",
            step=step,
            total=total,
            loss=values.get("loss"),
            heldout_loss=values.get("heldout_loss"),
            tokens_per_s=values.get("tokens_per_s"),
            samples_per_s=values.get("samples_per_s"),
            eta=left if math.isfinite(left) else None,
            memory_bytes=values.get("memory_bytes", max(resident, default=None)),
            checkpoint_step=view.checkpoint.step if view.checkpoint is not None else None,
        )

    def _total_of(self, leader: RankView | None) -> int | None:
        """Return the total steps. The heartbeat is gone once the run is over; the disk is read once."""
        if leader is not None and leader.total is not None:
            self._total = leader.total
        if self._total is None and not self._looked_for_total:
            self._looked_for_total = True
            self._total = total_steps(self._layout)
        return self._total

    def _pace(self) -> float | None:
        if self._metrics is None or not self._metrics.ranks("step_time"):
            return None
        return seconds_a_step(self._metrics, "step_time", self._metrics.ranks("step_time")[0])

    def _rows(self) -> dict[str, Latest]:
        """Return the newest row of each series for its first rank; for memory, for the rank that uses
        most.
        """
        if self._metrics is None:
            if not any(self._layout.attempts.glob("*/ranks/*/metrics/*")):
                return {}
            from torchdeck.metrics import RunMetrics

            self._metrics = RunMetrics(self._layout.root)
        self._metrics.refresh()
        found = {}
        for name in SERIES:
            latest = [self._metrics.latest(name, rank) for rank in self._metrics.ranks(name)]
            rows = [row for row in latest if row is not None]
            if rows:
                found[name] = _most(rows) if name == "memory_bytes" else rows[0]
        return found


def _most(rows: list[Latest]) -> Latest:
    """Return the largest of the newest attempt's ranks: a rank that was given up uses nothing any more."""
    newest = max(row.attempt for row in rows)
    return max((row for row in rows if row.attempt == newest), key=attrgetter("value"))


def _is_odd(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
