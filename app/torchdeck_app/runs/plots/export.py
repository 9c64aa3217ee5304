"""Plots as pictures, and their rows as CSV."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from pathlib import Path

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtSvg import QSvgGenerator

from torchdeck.contract.layout import RunLayout
from torchdeck.metrics import Owner, RunMetrics
from torchdeck.metrics.owned_segment import rows_of
from torchdeck_app.bridge.operations import Cancel
from torchdeck_app.runs.plots import readout
from torchdeck_app.runs.plots.catalogue import Metric
from torchdeck_app.runs.plots.exchange import PlotData
from torchdeck_app.runs.plots.legend import paint_row
from torchdeck_app.runs.plots.painting import Frame, paint
from torchdeck_app.runs.plots.text import plot_font
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.palette import Palette

_SCALE = 2
_ROWS_AT_ONCE = 20_000
"""Some 30 ms of writing."""


def write_png(path: Path, frame: Frame, data: PlotData, metric: Metric, palette: Palette) -> None:
    """The plot as it is on screen, at twice the pixels.

    Raises:
        OSError: the file cannot be written.
    """
    image = QImage(
        QSize(round(frame.width * _SCALE), round(frame.height * _SCALE)), QImage.Format.Format_RGB32
    )
    image.setDevicePixelRatio(_SCALE)
    painter = QPainter(image)
    _paint(painter, frame, data, metric, palette)
    painter.end()
    if not image.save(str(path), "PNG"):  # type: ignore[call-overload]  # its types want bytes
        raise OSError(f"{path} cannot be written")


def write_svg(path: Path, frame: Frame, data: PlotData, metric: Metric, palette: Palette) -> None:
    """The plot as a drawing.

    Raises:
        OSError: the file cannot be written.
    """
    with path.open("wb"):
        pass  # the generator below says nothing of a file it cannot write
    generator = QSvgGenerator()
    generator.setFileName(str(path))
    generator.setSize(QSize(round(frame.width), round(frame.height)))
    generator.setViewBox(QRectF(0, 0, frame.width, frame.height))
    generator.setTitle(metric.title)
    painter = QPainter(generator)
    _paint(painter, frame, data, metric, palette)
    painter.end()


def write_csv(
    path: Path, layout: RunLayout, metric: Metric, progress: Callable[[str], None], cancel: Cancel
) -> int:
    """Every row of the plot's metrics, of every attempt, with exact values; the number of rows.

    Columns: metric, owner (a rank or a node), attempt, step, time (unix seconds), value. What is half written
    lies beside `path` until it is whole.

    Raises:
        OSError: the file cannot be written, or a metrics file cannot be read.
        CancelledError: it was cancelled.
    """
    metrics = RunMetrics(layout.root)
    metrics.refresh()
    part = path.with_name(f".{path.name}.part")
    written = 0
    try:
        with part.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(("metric", metric.whose, "attempt", "step", "time", "value"))
            for name in metric.names:
                owners: list[Owner] = list(metrics.ranks(name) if metric.whose == "rank" else ())
                owners += metrics.nodes(name) if metric.whose == "node" else []
                for owner in owners:
                    progress(f"{name} of {metric.whose} {owner}")
                    written += _write_series(writer.writerows, metrics, name, owner, cancel)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return written


def _write_series(
    write: Callable[[Iterable[tuple[object, ...]]], object],
    metrics: RunMetrics,
    name: str,
    owner: Owner,
    cancel: Cancel,
) -> int:
    """Block by block, so that a cancel is seen soon however many rows there are."""
    written = 0
    for segment, limit in metrics.parts(name, owner):
        for first in range(0, segment.rows, _ROWS_AT_ONCE):
            cancel.check()
            rows = rows_of(segment, name, limit, first, min(first + _ROWS_AT_ONCE, segment.rows))
            columns = (rows.attempts, rows.steps, rows.times, rows.values)
            write(
                (name, owner, attempt, step, repr(time), repr(value))
                for attempt, step, time, value in zip(*(each.tolist() for each in columns), strict=True)
            )
            written += len(rows)
    return written


def _paint(painter: QPainter, frame: Frame, data: PlotData, metric: Metric, palette: Palette) -> None:
    paint(painter, frame, data, metric.title, palette)
    painter.setFont(plot_font(Type.BODY))
    width = painter.boundingRect(
        QRectF(0, 0, 4000, 100), int(Qt.AlignmentFlag.AlignLeft), metric.title
    ).width()
    painter.setFont(plot_font(Type.SMALL))
    paint_row(painter, readout.latest(data, metric.unit), frame.width, width, palette)
