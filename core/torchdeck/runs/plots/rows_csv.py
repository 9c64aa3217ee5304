"""Rows of a plot as CSV, with exact values."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from pathlib import Path

from torchdeck.contract.layout import RunLayout
from torchdeck.metrics import Owner, RunMetrics, Series
from torchdeck.metrics.owned_segment import rows_of
from torchdeck.runs.plots.catalogue import Metric
from torchdeck.runs.plots.run_reader import RunReader

_ROWS_AT_ONCE = 20_000
"""Rows per write: about 30 ms."""


def write_csv(
    path: Path, layout: RunLayout, metric: Metric, progress: Callable[[str], None], check: Callable[[], None]
) -> int:
    """Write all rows of the plot's metrics, of all attempts, with exact values; return the number of rows.

    Columns: metric, owner (a rank or a node), attempt, step, time (unix seconds), value. A partial file is
    kept next to `path` until it is complete.

    Raises:
        OSError: the file cannot be written, or a metrics file cannot be read.
        Exception: what `check` raises to cancel; it is called between blocks of rows.
    """
    run = RunReader(layout)
    run.refresh(None)
    metrics, metric = run.metrics, run.own(metric)
    part = path.with_name(f".{path.name}.part")
    written = 0
    try:
        with part.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(("metric", metric.whose, "attempt", "step", "time", "value"))
            for name in metric.names:
                owners: list[Owner] = list(metrics.ranks(name) if metric.whose == "rank" else ())
                owners += metrics.nodes(name) if metric.whose == "node" else []
                for rank in run.derived.ranks(name):
                    progress(f"{metric.title} of rank {rank}")
                    found = run.derived.series(name, rank)
                    writer.writerows(_lines(metric.title, rank, found))
                    written += len(found)
                for owner in owners:
                    progress(f"{name} of {metric.whose} {owner}")
                    written += _write_series(writer.writerows, metrics, name, owner, check)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return written


def _write_series(
    write: Callable[[Iterable[tuple[object, ...]]], object],
    metrics: RunMetrics,
    name: str,
    owner: Owner,
    check: Callable[[], None],
) -> int:
    """Write a series in blocks, so that a cancel takes effect soon for any number of rows."""
    written = 0
    for segment, limit in metrics.parts(name, owner):
        for first in range(0, segment.rows, _ROWS_AT_ONCE):
            check()
            rows = rows_of(segment, name, limit, first, min(first + _ROWS_AT_ONCE, segment.rows))
            write(_lines(name, owner, rows))
            written += len(rows)
    return written


def _lines(name: str, owner: Owner, rows: Series) -> Iterable[tuple[object, ...]]:
    columns = (rows.attempts, rows.steps, rows.times, rows.values)
    return (
        (name, owner, attempt, step, repr(time), repr(value))
        for attempt, step, time, value in zip(*(each.tolist() for each in columns), strict=True)
    )
