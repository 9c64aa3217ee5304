"""Values of metrics by name: `grad_norm` (last), `loss:min`, `accuracy:best`, `train/loss@1000`."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from torchdeck.trainers.metric_naming import named_metric
from torchdeck.trainers.metric_roles import Roles, plain_name

if TYPE_CHECKING:
    from torchdeck.metrics import RunMetrics

LAST, BEST, MIN, MAX = "last", "best", "min", "max"
_DERIVED = re.compile(rf"(?P<metric>.+?)(?::(?P<which>{LAST}|{BEST}|{MIN}|{MAX})|@(?P<step>\d{{1,15}}))")
MOST_NAMES = 200
"""Maximum number of metrics of a run whose last values are kept."""
_NEAR = 4096
"""Rows around a step that are read to find its value."""
_MORE_IS_BETTER = frozenset(
    (
        "acc", "accuracy", "top1", "top5", "f1", "auc", "auroc", "map", "miou", "iou", "dice", "precision",
        "recall", "bleu", "rouge", "score", "reward", "return", "psnr", "ssim", "r2", "mfu",
    )
)  # fmt: skip
"""Words in the names of metrics of which the highest value is the best."""
_LESS_IS_BETTER = frozenset(
    (
        "loss", "losses", "error", "errors", "err", "perplexity", "ppl", "fid", "kid", "wer", "cer", "mae",
        "mse", "rmse", "nll",
    )
)  # fmt: skip
"""Words that decide before those: `top1_error`, `map_loss`, `fid_score`."""


class MetricKey(NamedTuple):
    """A value of a metric other than its plain last one."""

    metric: str
    which: str
    """`last`, `best`, `min` or `max`; empty: at `step`."""
    step: int = -1


def metric_key(name: str) -> MetricKey | None:
    """Return what a name such as `loss:min` or `loss@1000` asks for; None for a plain name."""
    found = _DERIVED.fullmatch(name)
    if found is None:
        return None
    return MetricKey(found["metric"], found["which"] or "", int(found["step"] or -1))


def best_of(metric: str) -> str:
    """Return whether the best value of a metric is its `min` or its `max`, by its name."""
    words = plain_name(metric).split("_")
    if not _LESS_IS_BETTER.isdisjoint(words):
        return MIN
    return MAX if not _MORE_IS_BETTER.isdisjoint(words) or plain_name(metric).endswith("per_s") else MIN


def metric_values(metrics: RunMetrics, wanted: Collection[str], roles: Roles) -> dict[str, float]:
    """Return the last value of every metric by its name, and the values that `wanted` asks for.

    Args:
        metrics: of the run, as of its last refresh.
        wanted: names such as `loss:min`; plain names and those of metrics that the run lacks are left out.
        roles: of the run's metrics: `loss` is also what its program calls so.
    """
    names = metrics.names()
    found = {}
    for name in names[:MOST_NAMES]:
        latest = metrics.latest(name, metrics.ranks(name)[0])
        if latest is not None:
            found[name] = _plain(latest.value)
    for asked in wanted:
        key = metric_key(asked)
        asked_for = None if key is None else key.metric.removeprefix(METRIC)
        if key is None or asked_for is None or (named := named_metric(asked_for, names, roles)) is None:
            continue
        value = _value(metrics, named, key)
        if value is not None:
            found[asked] = _plain(value)
    return found


METRIC = "metric."
"""Prefix of a metric's name among the values of a run."""


def _value(metrics: RunMetrics, name: str, key: MetricKey) -> float | None:
    rank = metrics.ranks(name)[0]
    if key.which == LAST:
        latest = metrics.latest(name, rank)
        return None if latest is None else latest.value
    if not key.which:
        return _at_step(metrics, name, rank, key.step)
    extent = metrics.extent(name, rank)
    if extent is None:
        return None
    window = metrics.window(name, rank, *extent, 1, effective=True)
    ends: Mapping[str, float] = {MIN: float(window.low[0]), MAX: float(window.high[0])}
    return ends[best_of(name) if key.which == BEST else key.which]


def _at_step(metrics: RunMetrics, name: str, rank: int, step: int) -> float | None:
    """Return the value of the last row at the newest step up to `step`; None if the run did not get there."""
    from torchdeck.metrics import rows_between

    rows = rows_between(metrics, name, rank, step, step, most=_NEAR, effective=True)
    if rows is None:
        rows = metrics.series(name, rank, effective=True)
    if not len(rows) or int(rows.steps.max()) < step:
        return None
    before = [
        (at, value) for at, value in zip(rows.steps.tolist(), rows.values.tolist(), strict=True) if at <= step
    ]
    return max(reversed(before), key=lambda row: row[0])[1] if before else None


def _plain(value: float) -> float:
    """Return one object for every NaN: only that compares equal between two polls."""
    return math.nan if math.isnan(value) else value
