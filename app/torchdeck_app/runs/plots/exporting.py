"""Export of a plot or its rows: file dialog and writing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QFileDialog, QMenu, QWidget

from torchdeck.contract.layout import RunLayout
from torchdeck.runs.plots import entries as legend
from torchdeck.runs.plots.catalogue import Metric
from torchdeck.runs.plots.exchange import PlotData
from torchdeck.runs.plots.rows_csv import write_csv
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.runs.plots.canvas import PlotCanvas
from torchdeck_app.runs.plots.geometry import plot_font
from torchdeck_app.runs.plots.legend import paint_row
from torchdeck_app.runs.plots.painting import Frame, paint
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
                lambda progress, cancel: write_csv(path, layout, canvas.plotted, progress, cancel.check),
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


def _paint(painter: QPainter, frame: Frame, data: PlotData, metric: Metric, palette: Palette) -> None:
    paint(painter, frame, data, metric.title, palette)
    painter.setFont(plot_font(Type.BODY))
    width = painter.boundingRect(
        QRectF(0, 0, 4000, 100), int(Qt.AlignmentFlag.AlignLeft), metric.title
    ).width()
    painter.setFont(plot_font(Type.SMALL))
    paint_row(painter, legend.latest(data, metric.unit), frame.width, width, palette)
