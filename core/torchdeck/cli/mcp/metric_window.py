"""A range of a metric, as a program reads it: all rows, or the extremes of equal parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal

if TYPE_CHECKING:
    from torchdeck.metrics import RunMetrics
    from torchdeck.metrics.series import Owner


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
    from torchdeck.metrics import RunMetrics

    metrics = RunMetrics(layout.root)
    metrics.refresh()
    owners: list[Owner] = [*metrics.ranks(name), *metrics.nodes(name)]
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
        if begin <= end:
            whose = {"rank" if isinstance(owner, int) else "node": owner}
            found.append({**whose, **_values(metrics, name, owner, (begin, end), most)})
    return found


def _values(
    metrics: RunMetrics, name: str, owner: Owner, span: tuple[float, float], most: int
) -> dict[str, Any]:
    """Return `rows` in a span of steps, or `ranges` if there are more than `most` rows."""
    from torchdeck.metrics import rows_between
    from torchdeck.metrics.export.formats import json_number

    begin, end = span
    rows = rows_between(metrics, name, owner, begin, end, most=most)
    if rows is not None:
        inside = rows.picked((rows.steps >= begin) & (rows.steps <= end))
        columns = (inside.steps.tolist(), inside.times.tolist(), inside.values.tolist())
        return {
            "rows": [
                {"step": step, "time": time, "value": json_number(value)}
                for step, time, value in zip(*columns, strict=True)
            ]
        }
    window = metrics.window(name, owner, begin, end, most)
    edges, counts = window.edges.tolist(), window.counts.tolist()
    parts = zip(edges[:-1], edges[1:], counts, window.low.tolist(), window.high.tolist(), strict=True)
    return {
        "ranges": [
            {"from": lower, "to": upper, "rows": count, "low": json_number(low), "high": json_number(high)}
            for lower, upper, count, low, high in parts
            if count
        ]
    }
