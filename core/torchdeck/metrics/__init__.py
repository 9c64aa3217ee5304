"""Reader of a run's metrics: followed as they grow, merged over attempts, reduced to what a screen can
show.
"""

from torchdeck.metrics.excerpt import rows_between, sampled
from torchdeck.metrics.grid import Grid
from torchdeck.metrics.run_metrics import RunMetrics
from torchdeck.metrics.series import Latest, Owner, Series
from torchdeck.metrics.window import Window

__all__ = ["Grid", "Latest", "Owner", "RunMetrics", "Series", "Window", "rows_between", "sampled"]
