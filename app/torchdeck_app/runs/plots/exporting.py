"""Export of a plot or its rows: file dialog and writing."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QFileDialog, QMenu, QWidget

from torchdeck.contract.layout import RunLayout
from torchdeck.metrics import Owner, RunMetrics
from torchdeck.metrics.owned_segment import rows_of
from torchdeck_app.bridge.operations import Cancel, Operations
from torchdeck_app.runs.plots import legend
from torchdeck_app.runs.plots.canvas import PlotCanvas
from torchdeck_app.runs.plots.catalogue import Metric
from torchdeck_app.runs.plots.exchange import PlotData
from torchdeck_app.runs.plots.geometry import plot_font
from torchdeck_app.runs.plots.legend import paint_row
from torchdeck_app.runs.plots.painting import Frame, paint
from torchdeck_app.runs.plots.run_reader import RunReader
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.palette import Palette
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import control_text


class Exporting:
    """Export actions of a plot grid."""

    def __init__(self, theme: Theme, window: QWidget, say: Callable[[str, str], None]) -> None:
        """Create the export actions of one grid.

        Args:
            theme: colours of pictures.
            window: parent of dialogs.
            say: shows a sentence; its second argument is a role, such as `error`.
        """
        self._theme = theme
        self._window = window
        self._say = say
        self._operations = Operations(window)

    def close(self) -> None:
        """Cancel pending writes."""
        self._operations.close()

    def add_actions(self, menu: QMenu, canvas: PlotCanvas, layouts: Sequence[RunLayout]) -> None:
        """Add the export actions of one plot to a menu."""
        title = _as_text(canvas.plotted.title)
        for suffix in ("png", "svg"):
            action = menu.addAction(control_text(f"Export “{title}” as {suffix.upper()}…"))
            action.triggered.connect(lambda _=False, suffix=suffix: self._ask(canvas, suffix, layouts[0]))
        for layout in layouts:
            of = f" of {_as_text(layout.root.name)}" if len(layouts) > 1 else ""
            action = menu.addAction(control_text(f"Export rows of “{title}”{of} as CSV…"))
            action.triggered.connect(lambda _=False, layout=layout: self._ask(canvas, "csv", layout))

    def write(self, canvas: PlotCanvas, suffix: str, layout: RunLayout, path: Path) -> None:
        """Write one plot or its rows to `path` and report the result."""
        if suffix == "csv":
            self._operations.run(
                f"writing {path.name}",
                lambda progress, cancel: write_csv(path, layout, canvas.plotted, progress, cancel),
                done=lambda rows: self._say(f"{rows:,} rows written to {path.name}", "secondary"),
                failed=lambda error: self._say(f"{path.name} could not be written: {error}", "error"),
            )
            return
        writer = write_png if suffix == "png" else write_svg
        try:
            writer(path, canvas.frame, canvas.data, canvas.plotted, self._theme.palette)
        except OSError as error:
            self._say(f"{path.name} could not be written: {error}", "error")
        else:
            self._say(f"{path.name} written", "secondary")

    def _ask(self, canvas: PlotCanvas, suffix: str, layout: RunLayout) -> None:
        dialog = QFileDialog(self._window, f"Export {canvas.plotted.title}")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix(suffix)
        dialog.setNameFilter(f"{suffix.upper()} (*.{suffix})")
        name = "".join(letter if letter.isalnum() else "-" for letter in canvas.plotted.key)
        dialog.selectFile(f"{name}.{suffix}")
        dialog.fileSelected.connect(lambda path: self.write(canvas, suffix, layout, Path(path)))
        dialog.open()


def _as_text(name: str) -> str:
    """Return `name` for a menu, where & would underline the next letter."""
    return name.replace("&", "&&")


# Plots as pictures, and their rows as CSV.

_SCALE = 2
_ROWS_AT_ONCE = 20_000
"""Rows per write: about 30 ms."""


def write_png(path: Path, frame: Frame, data: PlotData, metric: Metric, palette: Palette) -> None:
    """Write the plot as shown on screen, at twice the resolution.

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
    """Write the plot as a vector drawing.

    Raises:
        OSError: the file cannot be written.
    """
    with path.open("wb"):
        pass  # the generator below does not report a file it cannot write
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
    """Write all rows of the plot's metrics, of all attempts, with exact values; return the number of rows.

    Columns: metric, owner (a rank or a node), attempt, step, time (unix seconds), value. A partial file is
    kept next to `path` until it is complete.

    Raises:
        OSError: the file cannot be written, or a metrics file cannot be read.
        CancelledError: it was cancelled.
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
    """Write a series in blocks, so that a cancel takes effect soon for any number of rows."""
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
    paint_row(painter, legend.latest(data, metric.unit), frame.width, width, palette)
