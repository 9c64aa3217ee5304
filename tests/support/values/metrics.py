"""Metric files for tests: rows of a rank, written as a rank writes them."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.segment_format import SEGMENT_SUFFIX, encode_header
from torchdeck.metrics import RunMetrics
from torchdeck.telemetry.writer import MetricsWriter


def rank_folder(run: Path, rank: int = 0, attempt: int = 1) -> Path:
    """Where a rank's segments lie."""
    return RunLayout(run).attempt(attempt).rank(rank).metrics


def write_rows(
    run: Path,
    rows: Iterable[tuple[int, Mapping[str, float]]],
    *,
    rank: int = 0,
    attempt: int = 1,
    source: str = "log",
) -> None:
    """Write (step, values) rows of one rank through a writer of its own."""
    with MetricsWriter(rank_folder(run, rank, attempt), source) as writer:
        for step, values in rows:
            writer.log(values, step=step)


def write_columns(
    path: Path, columns: Mapping[str, np.ndarray], *, steps: np.ndarray, times: np.ndarray
) -> None:
    """A whole segment at once, as large as a test needs it."""
    keys = sorted(columns)
    rows = np.empty((len(steps), 2 + len(keys)))
    rows.view(np.int64)[:, 0] = steps
    rows[:, 1] = times
    for index, key in enumerate(keys):
        rows[:, 2 + index] = columns[key]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(encode_header(keys, "log", created=1.0))
        rows.tofile(file)


def segment_path(run: Path, name: str = "log-1-1-00-0", rank: int = 0, attempt: int = 1) -> Path:
    """Path of a segment with a name of the test's choosing."""
    return rank_folder(run, rank, attempt) / f"{name}{SEGMENT_SUFFIX}"


def opened(run: Path) -> RunMetrics:
    """The run's metrics as of now."""
    metrics = RunMetrics(run)
    metrics.refresh()
    return metrics


def values_by_step(run: Path, name: str, rank: int = 0) -> dict[int, float]:
    """Metric `name` of a rank, by step."""
    series = opened(run).series(name, rank)
    return {int(step): float(value) for step, value in zip(series.steps, series.values, strict=True)}
