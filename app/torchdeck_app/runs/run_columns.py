"""Columns of the run list: their texts, and which of them fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torchdeck.quantities import ago, duration, epochs, metric, moment
from torchdeck.runs.plots.units import throughput_text
from torchdeck.runs.query.metric_values import METRIC, metric_key
from torchdeck.runs.run_list import RunEntry
from torchdeck.runs.run_state import RunState
from torchdeck.runs.table.columns import value_text
from torchdeck.runs.table.row import Row
from torchdeck.runs.training_progress import time_left
from torchdeck_app.runs.abilities import is_unfollowed, last_known
from torchdeck_app.runs.page.activity_texts import PHASES
from torchdeck_app.widgets.state_badge import UNREADABLE, Look, look_of_run

READING = Look("◷", "reading", "quiet")
"""Look of a run that has not been polled yet."""


@dataclass(frozen=True)
class Column:
    """Column of the list."""

    title: str
    sample: str
    """Longest text, which determines the width."""
    text: Callable[[Row, float], str]
    """Text of a run at a time (unix seconds)."""
    key: Callable[[Row], str | float | None]
    """Sort key; None comes last."""
    is_number: bool = False
    of_time: bool = False
    """Whether it changes with time although the run does not."""
    exact: Callable[[Row, float], str] | None = None
    """More detail for the tooltip."""


def look_of(entry: RunEntry) -> Look:
    """Return the look of a run's state."""
    if entry.view is not None:
        return look_of_run(entry.view)
    return UNREADABLE if entry.is_unreadable else READING


def _state(row: Row, _now: float) -> str:
    """Return `● running`, or the phase of a run that does something else than training: `● evaluating`."""
    look = look_of(row.entry)
    return f"{look.sign} {_phase(row) or look.word}"


def _phase(row: Row) -> str:
    """Return the phase of a running run if it is not training; else empty."""
    view, progress = row.entry.view, row.entry.progress
    if view is None or progress is None or view.is_hung or is_unfollowed(view):
        return ""
    return progress.other_phase if view.state is RunState.RUNNING else ""


def _why(row: Row, now: float) -> str:
    entry = row.entry
    why = entry.why
    if entry.view is not None:
        last = last_known(entry.view, now)
        why = why or (f"{last}; Attach asks its nodes" if last else entry.view.why)
    word = look_of(entry).word
    if _phase(row) and entry.progress is not None:
        why = why or PHASES.get(entry.progress.phase, entry.progress.phase)
    return f"{word}: {why}" if why else word


def _name(row: Row, _now: float) -> str:
    return f"{PIN} {row.label}" if row.note.pinned else row.label


def _name_exact(row: Row, _now: float) -> str:
    lines = list(dict.fromkeys((row.name, row.entry.name, row.entry.id)))
    lines += ["pinned"] if row.note.pinned else []
    lines += ["archived"] if row.note.archived else []
    view = row.entry.view
    if view is not None and view.target:
        lines.append(f"{view.kind} {view.target}".strip())
    lines += row.differs.split(", ") if row.differs else []
    if row.note.text:
        lines.append(row.note.text)
    return "\n".join(lines)


def _loss(row: Row, _now: float) -> str:
    value = _loss_key(row)
    return "" if value is None else metric(value)


def _loss_exact(row: Row, _now: float) -> str:
    value = _loss_key(row)
    return "" if value is None else f"loss {value!r}, and how it went"


def _loss_key(row: Row) -> float | None:
    return None if row.entry.progress is None else row.entry.progress.loss


def _validation_key(row: Row) -> float | None:
    return None if row.entry.progress is None else row.entry.progress.validation_loss


def _validation(row: Row, _now: float) -> str:
    value = _validation_key(row)
    return "" if value is None else metric(value)


def step_of(row: Row) -> int | None:
    """Return the run's current step; without progress, the step of its last checkpoint."""
    if row.entry.progress is not None and row.entry.progress.step is not None:
        return row.entry.progress.step
    view = row.entry.view
    return view.checkpoint.step if view is not None and view.checkpoint is not None else None


def _step(row: Row, _now: float) -> str:
    step = step_of(row)
    if step is None:
        return ""
    total = row.entry.progress.total if row.entry.progress is not None else None
    return f"{step:,}" if total is None else f"{step:,} / {total:,}"


def _epoch_key(row: Row) -> float | None:
    return None if row.entry.progress is None else row.entry.progress.epoch


def _epoch(row: Row, _now: float) -> str:
    value = _epoch_key(row)
    return "" if value is None else epochs(value)


def _throughput(row: Row, _now: float) -> str:
    progress = row.entry.progress
    return "" if progress is None or is_unfollowed(row.entry.view) else throughput_text(progress)


def _throughput_exact(row: Row, _now: float) -> str:
    value, what = _counted(row)
    return "" if value is None else f"{value:,.1f} {what} per second"


def _throughput_key(row: Row) -> float | None:
    return _counted(row)[0]


def _counted(row: Row) -> tuple[float | None, str]:
    """Return the throughput, and what it counts."""
    progress = row.entry.progress
    if progress is None or is_unfollowed(row.entry.view):
        return None, ""
    if progress.tokens_per_s is not None:
        return progress.tokens_per_s, "tokens"
    if progress.samples_per_s is not None:
        return progress.samples_per_s, "samples"
    return progress.steps_per_s, "steps"


def _eta(row: Row, _now: float) -> str:
    value = _eta_key(row)
    return "" if value is None else time_left(value)


def _eta_key(row: Row) -> float | None:
    view = row.entry.view
    trains = view is not None and view.state is RunState.RUNNING and not is_unfollowed(view)
    return row.entry.progress.eta if row.entry.progress is not None and trains else None


def _begun(row: Row) -> float | None:
    view = row.entry.view
    return None if view is None else view.started or view.created


def _started(row: Row, now: float) -> str:
    begun = _begun(row)
    return "" if begun is None else ago(now - begun)


def _started_exact(row: Row, _now: float) -> str:
    view = row.entry.view
    if view is None:
        return ""
    ended = "" if view.ended is None else f", ended {moment(view.ended)}"
    return f"created {moment(view.created)}, started {moment(view.started)}{ended}"


def lasted(row: Row, now: float) -> float | None:
    """Return seconds from the run's start to its end, to its last report, or to now."""
    view = row.entry.view
    if view is None or view.started is None:
        return None
    end = view.ended if view.ended is not None else view.followed_until
    return max(0.0, (now if end is None else end) - view.started)


def _duration(row: Row, now: float) -> str:
    seconds = lasted(row, now)
    return "" if seconds is None else duration(seconds)


def _strategy(row: Row, _now: float) -> str:
    view = row.entry.view
    if view is None:
        return ""
    return view.strategy if view.kind == "recipe" or view.strategy else view.kind


def _ranks_key(row: Row) -> float | None:
    return None if row.entry.view is None else row.entry.view.world_size


def _ranks(row: Row, _now: float) -> str:
    value = _ranks_key(row)
    return "" if value is None else f"{value:,.0f}"


def _tags(row: Row, _now: float) -> str:
    return ", ".join(row.note.tags)


def _note(row: Row, now: float) -> str:
    return "\n".join(part for part in (_tags(row, now), row.note.text) if part)


def _duration_key(row: Row) -> float | None:
    view = row.entry.view
    if view is None or view.started is None:
        return None
    # active runs sort by their start, as all of them end after now
    return (view.ended - view.started) if view.ended is not None else 1e12 - view.started


def _state_key(row: Row) -> str:
    live = "0" if row.entry.is_live else "1"
    return live + look_of(row.entry).word


PIN = "★"
"""Before the names of pinned runs."""


def value_column(name: str) -> Column:
    """Return the column of a value by its name in the filter: a setting, or a metric."""

    def text(row: Row, _now: float) -> str:
        return value_text(name, row.value(name))

    def exact(row: Row, _now: float) -> str:
        value = row.value(name)
        return "" if value is None else f"{name} {value}"

    return Column(
        name.removeprefix(METRIC) if metric_key(name) is None else name,
        "0.000123 ",
        text,
        lambda row: row.sortable(name),
        is_number=True,
        exact=exact,
    )


def column_of(key: str) -> Column:
    """Return a column of the list by its key, or that of a value by its name."""
    return COLUMNS[key] if key in COLUMNS else value_column(key)


VALUE_NAMES: Mapping[str, str] = {"duration": "took", "eta": "left", "tags": "tag"}
"""Key of a column → the name of the same value in filters and saved views, if it is another."""


def value_name(key: str) -> str:
    """Return the name of a column's value in filters and saved views."""
    return VALUE_NAMES.get(key, key)


def key_named(name: str) -> str:
    """Return the key of the column that shows a value."""
    return next((key for key, value in VALUE_NAMES.items() if value == name), name)


STATE, NAME, LOSS = "state", "name", "loss"
COLUMNS: Mapping[str, Column] = {
    STATE: Column("State", "● succeeded", _state, _state_key, exact=_why),
    NAME: Column("Name", "a name of a run", _name, lambda row: row.name.lower(), exact=_name_exact),
    LOSS: Column("Loss", "2.3142 curve c", _loss, _loss_key, is_number=True, exact=_loss_exact),
    "validation": Column("Validation", "2.3142  ", _validation, _validation_key, is_number=True),
    "step": Column("Step", "120,400 / 200,000", _step, step_of, is_number=True),
    "epoch": Column("Epoch", "12.5  ", _epoch, _epoch_key, is_number=True),
    "throughput": Column(
        "Throughput", "123.4k tok/s", _throughput, _throughput_key, is_number=True, exact=_throughput_exact
    ),
    "eta": Column("Left", "12 min 30 s", _eta, _eta_key, is_number=True),
    "started": Column("Started", "12 min ago", _started, _begun, of_time=True, exact=_started_exact),
    "duration": Column("Took", "12 min 30 s", _duration, _duration_key, is_number=True, of_time=True),
    "strategy": Column("Strategy", "deepspeed", _strategy, lambda row: _strategy(row, 0.0)),
    "ranks": Column("Ranks", "Ranks  ", _ranks, _ranks_key, is_number=True),
    "tags": Column("Tags", "sweep, best", _tags, lambda row: _tags(row, 0.0) or None, exact=_note),
}
KEYS = tuple(COLUMNS)
_MOST_WANTED_FIRST = (
    STATE,
    NAME,
    LOSS,
    "step",
    "eta",
    "started",
    "duration",
    "throughput",
    "validation",
    "epoch",
    "strategy",
    "ranks",
    "tags",
)


def columns_for(width: int, widths: Mapping[str, int]) -> tuple[str, ...]:
    """Return the columns that fit in `width` pixels by priority, in list order.

    Args:
        width: width of the list.
        widths: width of each column.
    """
    shown: set[str] = set()
    for key in _MOST_WANTED_FIRST:
        if shown >= {STATE, NAME} and width < widths[key]:
            break
        width -= widths[key]
        shown.add(key)
    return tuple(key for key in KEYS if key in shown)
