"""A range of a metric, as a program reads it: all rows, or the extremes of equal parts."""

from __future__ import annotations

from typing import Any

from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal


def metric_window(
    layout: RunLayout, name: str, first: int | None, last: int | None, points: int
) -> list[dict[str, Any]]:
    """Return the rows of a metric from step `first` to `last`, by rank or node; None: from the begin, to the
    end.

    An owner with more rows than its part of `points` has the minimum and maximum of equal ranges of steps
    instead, as many as its part.

    Raises:
        Refusal: the run has no metric of this name.
        OSError: a file cannot be read.
    """
    from torchdeck.metrics import RunMetrics, rows_between
    from torchdeck.metrics.export.formats import json_number

    metrics = RunMetrics(layout.root)
    metrics.refresh()
    owners: list[int | str] = [*metrics.ranks(name), *metrics.nodes(name)]
    if not owners:
        known = ", ".join([*metrics.names(), *metrics.system_names()]) or "none yet"
        raise Refusal(f"run {layout.root.name} has no metric {name!r}", f"it has {known}")
    most = max(1, points // len(owners))
    found = []
    for owner in owners:
        extent = metrics.extent(name, owner)
        if extent is None:
            continue
        begin = extent[0] if first is None else float(first)
        end = extent[1] if last is None else float(last)
        if end < begin:
            continue
        value: dict[str, Any] = {"rank" if isinstance(owner, int) else "node": owner}
        rows = rows_between(metrics, name, owner, begin, end, most=most)
        if rows is None:
            window = metrics.window(name, owner, begin, end, most)
            value["ranges"] = [
                {
                    "from": lower,
                    "to": upper,
                    "rows": count,
                    "low": json_number(low),
                    "high": json_number(high),
                }
                for lower, upper, count, low, high in zip(
                    window.edges[:-1].tolist(),
                    window.edges[1:].tolist(),
                    window.counts.tolist(),
                    window.low.tolist(),
                    window.high.tolist(),
                    strict=True,
                )
                if count
            ]
        else:
            inside = rows.picked((rows.steps >= begin) & (rows.steps <= end))
            value["rows"] = [
                {"step": step, "time": time, "value": json_number(number)}
                for step, time, number in zip(
                    inside.steps.tolist(), inside.times.tolist(), inside.values.tolist(), strict=True
                )
            ]
        found.append(value)
    return found
