"""Report of the selected runs as an HTML or PDF file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QMarginsF, QObject, QSize, QUrl, Signal
from PySide6.QtGui import (
    QDesktopServices,
    QImage,
    QPageLayout,
    QPageSize,
    QPainter,
    QPdfWriter,
    QTextDocument,
)
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QFileDialog, QWidget

from torchdeck.contract.atomic import write_bytes
from torchdeck.runs.report.content import read_report
from torchdeck.runs.report.page import BODY, html_page
from torchdeck.runs.table.row import Row
from torchdeck.use_cases.table.report import write_report
from torchdeck_app.bridge.operations import Operations

_SVG = re.compile(r"<svg .*?</svg>", re.DOTALL)
_CHART = QSize(680, 355)
"""Size of a chart on a page, in points of the document."""
_LEGEND = QSize(24, 8)
_SCALE = 3
_DPI = 96
_MARGIN = 15.0
"""Millimetres."""


class RunReports(QObject):
    """Asks for a file, and writes the report off the GUI thread."""

    written = Signal(str)
    """Emitted with the path."""
    failed = Signal(str)

    def __init__(self, operations: Operations, window: QWidget) -> None:
        super().__init__(window)
        self._operations, self._window = operations, window

    def ask(self, rows: Sequence[Row]) -> None:
        """Ask for the file of a report about these runs; open it once it is written."""
        if not rows:
            return
        dialog = report_dialog(self._window, rows[0].entry.name if len(rows) == 1 else "runs")
        dialog.fileSelected.connect(lambda path: self.write(rows, Path(path)))
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def write(self, rows: Sequence[Row], target: Path, *, show: bool = True) -> None:
        """Write a report, as PDF if the file is called so; `written` or `failed` follows."""

        def call(progress: Callable[[str], None], _cancel: object) -> None:
            if target.suffix.lower() == ".pdf":
                write_pdf(html_page(read_report(rows, progress)), target)
            else:
                write_report(rows, target, progress)

        def done(_result: None) -> None:
            self.written.emit(str(target))
            if show:
                QDesktopServices.openUrl(QUrl.fromLocalFile(str(target)))

        def failed(error: Exception) -> None:
            self.failed.emit(f"The report is not written: {error}")

        self._operations.run("writing the report", call, done=done, failed=failed)


def report_dialog(window: QWidget, name: str) -> QFileDialog:
    """Return a dialog for the file of a report: HTML, or PDF if its filter is chosen."""
    dialog = QFileDialog(window, "Export a report")
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setNameFilters(["HTML (*.html)", "PDF (*.pdf)"])
    dialog.setDefaultSuffix("html")
    dialog.filterSelected.connect(
        lambda chosen: dialog.setDefaultSuffix("pdf" if "pdf" in chosen else "html")
    )
    dialog.selectFile(f"{name}.html")
    return dialog


def write_pdf(page: str, target: Path) -> None:
    """Write an HTML page of `html_page` as PDF on A4; a file at `target` is replaced.

    Raises:
        OSError: the file cannot be written; an old one is unchanged.
    """
    content = _pdf(page)
    if not content.startswith(b"%PDF-") or not content.rstrip().endswith(b"%%EOF"):
        raise OSError("Qt has not made a complete PDF")  # its writer raises nothing itself
    write_bytes(target, content, durable=False)


def _pdf(page: str) -> bytes:
    document = QTextDocument()
    pictures: list[str] = []

    def picture(found: re.Match[str]) -> str:
        pictures.append(found[0])
        size = _LEGEND if _is_legend(found[0]) else _CHART
        return f'<img src="picture{len(pictures)}" width="{size.width()}" height="{size.height()}">'

    text = _SVG.sub(picture, page.replace(BODY, ""))  # the paper has margins of its own
    for number, svg in enumerate(pictures, 1):
        kind = QTextDocument.ResourceType.ImageResource
        document.addResource(int(kind.value), QUrl(f"picture{number}"), _drawn(svg))
    document.setHtml(text)
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    writer = QPdfWriter(buffer)
    writer.setPageSize(QPageSize(QPageSize.PageSizeId.A4))
    writer.setResolution(_DPI)
    margins = QMarginsF(_MARGIN, _MARGIN, _MARGIN, _MARGIN)
    writer.setPageMargins(margins, QPageLayout.Unit.Millimeter)
    document.setPageSize(writer.pageLayout().paintRectPixels(_DPI).size().toSizeF())
    document.print_(writer)
    return bytes(buffer.data().data())


def _is_legend(svg: str) -> bool:
    return svg.startswith('<svg viewBox="0 0 24 8"')


def _drawn(svg: str) -> QImage:
    """Return a chart as a picture; the page's style sheet is not known to it."""
    plain = svg.replace('class="grid"', 'stroke="#e5e7eb"').replace(
        'class="tick"', 'font-size="11" fill="#57606a" font-family="sans-serif"'
    )
    plain = plain.replace('class="title"', 'font-size="13" font-weight="bold" font-family="sans-serif"')
    plain = plain.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    size = (_LEGEND if _is_legend(svg) else _CHART) * _SCALE
    image = QImage(size, QImage.Format.Format_ARGB32)
    image.fill(0xFFFFFFFF)
    painter = QPainter(image)
    QSvgRenderer(QByteArray(plain.encode())).render(painter)
    painter.end()
    return image
