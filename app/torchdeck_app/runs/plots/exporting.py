"""Export of a plot or its rows: file dialog and writing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pyqtgraph.exporters import Exporter, ImageExporter, SVGExporter
from PySide6.QtCore import QBuffer, QMimeData, QRectF, Qt
from PySide6.QtGui import QGuiApplication, QPainter
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QFileDialog, QMenu, QWidget

from torchdeck.contract.layout import RunLayout
from torchdeck.runs.plots.rows_csv import write_csv
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.runs.plots.plot import Plot
from torchdeck_app.widgets.labels import control_text


class Exporting:
    """Export actions of a plot grid."""

    def __init__(self, window: QWidget, say: Callable[[str, str], None]) -> None:
        """Create the export actions of one grid.

        Args:
            window: parent of dialogs.
            say: shows a sentence; its second argument is a role, such as `error`.
        """
        self._window = window
        self._say = say
        self._operations = Operations(window)

    def close(self) -> None:
        """Cancel pending writes."""
        self._operations.close()

    def add_actions(self, menu: QMenu, plot: Plot, layouts: Sequence[RunLayout]) -> None:
        """Add the export actions of one plot to a menu."""
        title = _as_text(plot.plotted.title)
        for suffix in ("png", "svg"):
            action = menu.addAction(control_text(f"Export “{title}” as {suffix.upper()}…"))
            action.triggered.connect(lambda _=False, suffix=suffix: self._ask(plot, suffix, layouts[0]))
        for layout in layouts:
            of = f" of {_as_text(layout.root.name)}" if len(layouts) > 1 else ""
            action = menu.addAction(control_text(f"Export rows of “{title}”{of} as CSV…"))
            action.triggered.connect(lambda _=False, layout=layout: self._ask(plot, "csv", layout))

    def write(self, plot: Plot, suffix: str, layout: RunLayout, path: Path) -> None:
        """Write one plot or its rows to `path` and report the result."""
        if suffix == "csv":
            self._operations.run(
                f"writing {path.name}",
                lambda progress, cancel: write_csv(path, layout, plot.plotted, progress, cancel.check),
                done=lambda rows: self._say(f"{rows:,} rows written to {path.name}", "secondary"),
                failed=lambda error: self._say(f"{path.name} could not be written: {error}", "error"),
            )
            return
        writer = write_png if suffix == "png" else write_svg
        try:
            writer(path, plot)
        except OSError as error:
            self._say(f"{path.name} could not be written: {error}", "error")
        else:
            self._say(f"{path.name} written", "secondary")

    def _ask(self, plot: Plot, suffix: str, layout: RunLayout) -> None:
        dialog = QFileDialog(self._window, f"Export {plot.plotted.title}")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix(suffix)
        dialog.setNameFilter(f"{suffix.upper()} (*.{suffix})")
        name = "".join(letter if letter.isalnum() else "-" for letter in plot.plotted.key)
        dialog.selectFile(f"{name}.{suffix}")
        dialog.fileSelected.connect(lambda path: self.write(plot, suffix, layout, Path(path)))
        dialog.open()


def _as_text(name: str) -> str:
    """Return `name` for a menu, where & would underline the next letter."""
    return name.replace("&", "&&")


# Plots as pictures.

_SCALE = 2


def write_png(path: Path, plot: Plot) -> None:
    """Write the plot as shown on screen, at twice the resolution.

    Raises:
        OSError: the file cannot be written.
    """
    exporter = ImageExporter(plot)
    exporter.parameters()["width"] = _SCALE * round(plot.size().width())
    if not exporter.export(toBytes=True).save(str(path), "PNG"):
        raise OSError(f"{path} cannot be written")


def write_svg(path: Path, plot: Plot) -> None:
    """Write the plot as a vector drawing.

    Raises:
        OSError: the file cannot be written.
    """
    path.write_bytes(SvgExporter(plot).drawing())


class SvgExporter(SVGExporter):
    """Writer of one drawing of the whole plot.

    pyqtgraph's own writes item by item, and fails on the closed paths that Qt writes since 6.8.
    """

    Name = SVGExporter.Name

    def export(self, fileName: str | None = None, copy: bool = False) -> None:  # noqa: FBT001, FBT002, N803 - pyqtgraph's
        """Write the drawing to a file, or into the clipboard; without both, ask for a file."""
        if fileName is not None:
            Path(fileName).write_bytes(self.drawing())
        elif copy:
            content = QMimeData()
            content.setData("image/svg+xml", self.drawing())
            QGuiApplication.clipboard().setMimeData(content)
        else:
            super().export()  # calls this again

    def drawing(self) -> bytes:
        """Return the SVG document."""
        target = QRectF(0, 0, self.params["width"], self.params["height"])
        buffer = QBuffer()
        generator = QSvgGenerator()
        generator.setOutputDevice(buffer)
        generator.setSize(target.size().toSize())
        generator.setViewBox(target)
        painter = QPainter(generator)
        try:
            painter.fillRect(target, self.params["background"])
            self.setExportMode(True, {"painter": painter})  # noqa: FBT003 - pyqtgraph's arguments
            self.getScene().render(painter, target, QRectF(self.getSourceRect()))
        finally:
            self.setExportMode(False)
            painter.end()
        return bytes(buffer.data().data())


Exporter.Exporters.remove(SVGExporter)
SvgExporter.register()
