"""`torchdeck.log`: metrics of the rank that this process is, or belongs to."""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Callable, Mapping
from typing import SupportsFloat

from torchdeck.environment import LauncherVariableError, rank_layout
from torchdeck.telemetry.media.values import Media
from torchdeck.telemetry.media.writer import MediaWriter
from torchdeck.telemetry.writer import MetricsWriter

LogFunction = Callable[..., None]


def log(values: Mapping[str, SupportsFloat | Media], step: int | None = None) -> None:
    """Record metrics, images, texts, histograms and tables of this rank.

    Outside a Torchdeck run it does nothing.

    The values are on disk when it returns. It never raises because of a value: values that are not numbers
    are skipped, and a full disk loses rows; both are reported once through the `torchdeck` logger. Processes
    that a rank starts or forks may log, too.

    Args:
        values: name → number: Python and NumPy numbers, tensors of one element. NaN and infinities are
            kept. Or `torchdeck.Image`, `Text`, `Histogram` or `Table`.
        step: the x value. Default: one more than the last.
    """
    # the definition outside a run; inside, torchdeck.log is the method of a writer


def log_of_this_process(environ: Mapping[str, str] = os.environ) -> LogFunction:
    """Return `torchdeck.log` for a process with these variables."""
    try:
        layout = rank_layout(environ)
    except LauncherVariableError as error:
        logging.getLogger("torchdeck").warning("torchdeck.log does nothing: %s", error)
        return log
    if layout is None:
        return log
    writer = MetricsWriter(layout.metrics, source="log", media=MediaWriter(layout.media))
    atexit.register(writer.close)  # the last rows get their checksum
    return writer.log
