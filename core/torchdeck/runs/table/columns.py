"""Columns by the names that the filter knows: keys of run.toml, metrics, and values of every run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torchdeck.contract.refusal import Refusal
from torchdeck.quantities import duration, metric, moment
from torchdeck.runs.query.expression import Value
from torchdeck.runs.query.metric_values import BEST, METRIC, metric_key
from torchdeck.runs.query.values import NAMES
from torchdeck.runs.table.row import Row

MOST_COLUMNS = 40
"""Maximum number of columns that are chosen at once."""
_LONGEST_NAME = 200


class ColumnsError(Refusal):
    """Columns that cannot be shown; the message says why."""

    is_usage = True


def column_names(text: str) -> tuple[str, ...]:
    """Return the names in `loss:best,training.lr`, each once.

    Raises:
        ColumnsError: there are none, too many, or one is too long.
    """
    names = tuple(dict.fromkeys(filter(None, (part.strip() for part in text.split(",")))))
    if not names:
        raise ColumnsError("no column is given", fix="expected names such as training.lr,loss:best,loss@1000")
    if len(names) > MOST_COLUMNS:
        raise ColumnsError(f"{len(names):,} columns are given", fix=f"at most {MOST_COLUMNS} are shown")
    if longest := next((name for name in names if len(name) > _LONGEST_NAME), ""):
        raise ColumnsError(f"the column {longest[:20]}… has {len(longest):,} characters")
    return names


def metrics_in(names: Iterable[str]) -> frozenset[str]:
    """Return the names that only a metric's history answers, such as `loss:min` or `loss@1000`."""
    return frozenset(name for name in names if metric_key(name) is not None)


def offered_names(rows: Sequence[Row]) -> list[str]:
    """Return what can be a column: values of every run, settings of these runs, and their metrics."""
    settings = sorted({key for row in rows for key in row.entry.settings})
    metrics = sorted({key for row in rows for key in row.entry.metrics if metric_key(key) is None})
    taken = {*NAMES, *settings, *(key.rpartition(".")[2] for key in settings)}
    last = [f"{METRIC}{name}" if name in taken else name for name in metrics]
    best = [f"{name}:{BEST}" for name in metrics]
    return [*NAMES, *settings, *(name for pair in zip(last, best, strict=True) for name in pair)]


def value_text(name: str, value: Value | None) -> str:
    """Return a value in the form in which its column shows it; empty for None."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if name == "started":
        return moment(value)
    if name in ("took", "left"):
        return duration(value)
    return f"{value:,}" if isinstance(value, int) else metric(value)
