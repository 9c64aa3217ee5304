"""Progress of training, from the run's view and its metrics, if any."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from torchdeck.contract.atomic import read_json
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.inside_state import read_inside_state
from torchdeck.contract.metrics.progress import read_progress
from torchdeck.contract.metrics.script_state import ScriptState, read_script_state
from torchdeck.contract.run_states import RankPhase
from torchdeck.quantities import duration, epochs, rate, size
from torchdeck.runs.run_state import RankView
from torchdeck.runs.view import RunView
from torchdeck.trainers.metric_roles import LOSS, MEMORY, SAMPLES, STEP_TIME, TOKENS, VALIDATION_LOSS, Roles

if TYPE_CHECKING:
    from torchdeck.metrics import Latest, RunMetrics


CURVE_COLUMNS = 48
"""Points of the small curve in a list of runs."""
SERIES = (LOSS, VALIDATION_LOSS, TOKENS, SAMPLES, STEP_TIME, MEMORY)
"""Roles of the metrics that are shown, whatever the program calls them."""


@dataclass(frozen=True)
class TrainingProgress:
    """Progress of rank 0; None if unknown. Durations in seconds."""

    phase: str
    step: int | None
    total: int | None
    loss: float | None = None
    validation_loss: float | None = None
    tokens_per_s: float | None = None
    eta: float | None = None
    memory_bytes: float | None = None
    """Memory of the rank that uses most."""
    checkpoint_step: int | None = None
    samples_per_s: float | None = None
    epoch: float | None = None
    """Epochs completed by a script; None for a recipe."""
    steps_per_s: float | None = None
    """Pace of a script while it runs; None for a recipe."""
    loss_step: int | None = None
    """Step of the loss, if it is far from `step`: metrics are still being read, or copied from a node."""

    @property
    def other_phase(self) -> str:
        """Phase other than training, such as `evaluating`; empty if it trains or reports no phase."""
        if self.phase in ("training", "starting", "running", ""):
            return ""
        return "finishing" if self.phase == RankPhase.DONE else self.phase

    @property
    def throughput(self) -> str:
        """`12.3k tokens/s`, or samples, or steps, whichever is counted first; empty if none is."""
        for value, what in ((self.tokens_per_s, "tokens"), (self.samples_per_s, "samples")):
            if value is not None:
                return f"{rate(value)} {what}/s"
        return "" if self.steps_per_s is None else f"{self.steps_per_s:.3g} steps/s"

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
            parts.append(f"epoch {epochs(self.epoch)}")
        if self.loss is not None:
            behind = "" if self.loss_step is None else f" of step {self.loss_step}"
            parts.append(f"loss {self.loss:.4f}{behind}")
        if self.validation_loss is not None:
            parts.append(f"validation loss {self.validation_loss:.4f}")
        if self.throughput:
            parts.append(self.throughput)
        if self.eta is not None and self.step != self.total:
            parts.append(f"ETA {time_left(self.eta)}")
        if self.memory_bytes is not None:
            parts.append(f"memory {size(self.memory_bytes)}")
        if self.checkpoint_step is not None:
            parts.append(f"checkpoint {self.checkpoint_step}")
        if self.step is not None and self.other_phase:
            parts.append(self.other_phase)
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

    @property
    def metrics(self) -> tuple[RunMetrics, Roles] | None:
        """Return the run's metrics as of the last `read`, with their roles; None if it has none."""
        return None if self._metrics is None else (self._metrics, self._roles)

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
        since = 0 if view.is_over else view.attempt or 0
        begun = _first_step(view)
        rows = {
            role: row
            for role, row in self._rows().items()
            if row.attempt >= since or (row.step <= begun and role in (LOSS, VALIDATION_LOSS))
        }
        leader = _leader(view)
        script = None if view.kind == "recipe" else script_state(self._layout, view.world_size or 1, since)
        counted = script is not None and script.step is not None
        if not (rows or counted or 0 < begun < math.inf or any(rank.step for rank in view.ranks)):
            # loading and compiling may take minutes; the state already shows "starting"
            if leader is None or leader.phase in ("", "starting") or view.kind != "recipe" or view.is_over:
                return None
            return TrainingProgress(leader.phase, None, None)
        step, total = _step_of(rows, leader, script, begun), self._total_of(leader, script)
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
            validation_loss=values.get(VALIDATION_LOSS),
            tokens_per_s=values.get(TOKENS),
            samples_per_s=values.get(SAMPLES),
            eta=left if math.isfinite(left) and left >= 0 else None,
            memory_bytes=values.get(MEMORY, max(resident, default=None)),
            checkpoint_step=view.checkpoint.step if view.checkpoint is not None else None,
            epoch=None if script is None else script.epoch,
            steps_per_s=None if script is None or view.is_over else script.rate,
            loss_step=self._other_step(rows.get(LOSS), step, script),
        )

    def _other_step(self, row: Latest | None, step: int, script: ScriptState | None) -> int | None:
        """Return the step of the newest loss if it is not that of `step`: further away than rows usually
        are.
        """
        if row is None or row.step == step or self._metrics is None:
            return None
        if script is not None and not _counts_alike(script):
            return None  # its rows may be numbered by something else than steps
        from torchdeck.metrics.pace import steps_a_row

        rank = self._metrics.ranks(self._names[LOSS])[0]
        usual = steps_a_row(self._metrics, self._names[LOSS], rank)
        return row.step if abs(step - row.step) > 2 * usual else None

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
                from torchdeck.metrics.pace import seconds_a_step

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


def _first_step(view: RunView) -> float:
    """Return the step from which the current attempt continues: what came after it is done again. Infinity
    if that is unknown, or nothing runs.
    """
    found = [attempt for attempt in view.attempts if attempt.number == view.attempt and not view.is_over]
    if not found or (found[0].resume and found[0].resume_step is None):
        return math.inf
    return found[0].resume_step or 0


def _leader(view: RunView) -> RankView | None:
    """Return the rank that reports: the first, or of a script the first that counts steps."""
    first = view.ranks[0] if view.ranks else None
    if first is None or first.step or view.kind == "recipe":
        return first
    return next((rank for rank in view.ranks if rank.step), first)


def _step_of(
    rows: Mapping[str, Latest], leader: RankView | None, script: ScriptState | None, begun: float
) -> int:
    """Return the newest step. The heartbeat is a second old, and gone at the end: metrics may be newer.

    A script's rows may be numbered by something else than steps: they count only if nothing else does.
    """
    said = max(int(begun) if begun < math.inf else 0, leader.step or 0 if leader is not None else 0)
    if script is not None and script.step is not None:
        loss = rows.get(LOSS)
        return max(said, script.step, loss.step if loss is not None and _counts_alike(script) else 0)
    return max([row.step for row in rows.values()] + [said])


def _counts_alike(script: ScriptState) -> bool:
    """Return whether one layer reports both step and loss."""
    step, loss = script.origins.get("step"), script.origins.get("loss")
    return step is not None and loss is not None and step.layer == loss.layer


def _most(rows: list[Latest]) -> Latest:
    """Return the largest of the newest attempt's ranks: a rank that was given up uses nothing any more."""
    newest = max(row.attempt for row in rows)
    return max((row for row in rows if row.attempt == newest), key=attrgetter("value"))


def _is_odd(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


# Progress of a script as its agent noted it, and which layer reports what.

_SHOWN = ("step", "total", "loss")


def script_state(layout: RunLayout, world_size: int, since: int = 0) -> ScriptState | None:
    """Return the state of the newest attempt's rank that reports: the first, or else the last.

    Args:
        layout: of the run.
        world_size: number of ranks.
        since: number of the first attempt that counts.
    """
    for number in filter(since.__le__, reversed(layout.attempt_numbers())):
        attempt = layout.attempt(number)
        states = [
            read_script_state(attempt.rank(rank).script) for rank in sorted({0, max(0, world_size - 1)})
        ]
        found = [state for state in states if state is not None]
        if found:
            return next((state for state in found if state.step is not None), found[0])
    return None


def roles_of_run(layout: RunLayout) -> Roles:
    """Return the roles of a run's metrics: those that its run file names, then those of known programs."""
    plan = read_json(layout.plan)
    names = plan.get("metric_names") if isinstance(plan, dict) else None
    given = names if isinstance(names, dict) else {}
    return Roles({role: name for role, name in given.items() if isinstance(name, str)})


def origins_sentence(state: ScriptState) -> str:
    """Return `step and loss from trainer_state.json, total from --max_steps`; empty if nothing is known."""
    names: dict[str, list[str]] = {}
    for fact in _SHOWN:
        if fact in state.origins:
            names.setdefault(state.origins[fact].name, []).append(fact)
    return ", ".join(f"{_listed(facts)} from {origin}" for origin, facts in names.items())


def callback_failures(layout: RunLayout) -> tuple[str, ...]:
    """Return one sentence per reason why ranks of the newest attempt have no callbacks any more."""
    numbers = layout.attempt_numbers()
    ranks: dict[str, list[int]] = {}
    for path in layout.attempt(numbers[-1]).ranks.glob("*/inside.json") if numbers else ():
        state = read_inside_state(path)
        if state is not None and path.parent.name.isdecimal():
            for failure in state.failures:
                ranks.setdefault(failure, []).append(int(path.parent.name))
    return tuple(
        f"callbacks of telemetry.inside failed on {_ranks(sorted(found))} and are off; "
        f"the program is not affected: {failure}"
        for failure, found in ranks.items()
    )


def _ranks(ranks: list[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {_listed([str(rank) for rank in ranks])}"


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


# Total number of training steps and estimated time left, from files on disk.

PLAIN = 600.0
"""Remaining time in seconds from which it is shown without seconds."""


def time_left(seconds: float) -> str:
    """Return `42 s`, `3 min 20 s`, `37 min`, `2 h 5 min`: no more precise than an estimate can be."""
    if seconds < PLAIN:
        return duration(seconds)
    return duration(60.0 * round(seconds / 60.0)).removesuffix(" 0 s")


def total_steps(layout: RunLayout) -> int | None:
    """Return the total that the newest attempt with that value wrote, else the plan's; None if neither has
    it.
    """
    for number in reversed(layout.attempt_numbers()):
        progress = read_progress(layout.attempt(number).rank(0).progress)
        if progress is not None and progress.total is not None:
            return progress.total
    try:
        steps = read_json(layout.plan)["batch"]["steps"]
    except (OSError, KeyError, TypeError):
        return None
    return steps if isinstance(steps, int) and not isinstance(steps, bool) and steps > 0 else None
