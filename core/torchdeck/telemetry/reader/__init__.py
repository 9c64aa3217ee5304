"""Reads a run's metrics: followed as they grow, merged over attempts, reduced to what a screen can show."""

from torchdeck.telemetry.reader.excerpt import rows_between, sampled
from torchdeck.telemetry.reader.grid import Grid
from torchdeck.telemetry.reader.run_metrics import RunMetrics
from torchdeck.telemetry.reader.series import Latest, Owner, Series
from torchdeck.telemetry.reader.window import Window

__all__ = ["Grid", "Latest", "Owner", "RunMetrics", "Series", "Window", "rows_between", "sampled"]
