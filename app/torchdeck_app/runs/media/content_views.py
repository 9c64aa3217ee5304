"""Views of one logged value: an image, a text, a histogram or a table."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QImage, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QPlainTextEdit,
    QStackedWidget,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from torchdeck.contract.metrics.media_format import Cell, HistogramBody, MediaError, TableBody
from torchdeck.metrics.logged_media import Content
from torchdeck.quantities import metric
from torchdeck.shown_text import shown
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.chart import Chart
from torchdeck_app.widgets.panel import GRID

_LARGEST_ENLARGEMENT = 16
"""Times that a small image is enlarged at most."""

Shown = QImage | str | HistogramBody | TableBody
"""A value, an image decoded."""


def decoded(content: Content) -> Shown:
    """Return a value as it is shown; for a worker, as a large image takes a while.

    Raises:
        MediaError: an image cannot be decoded.
    """
    if not isinstance(content, bytes):
        return content
    # decoders of other formats see nothing of what a node sends
    image = QImage.fromData(content, "PNG")  # type: ignore[arg-type]  # its types want bytes
    if image.isNull():
        raise MediaError("The image cannot be decoded: it is damaged")
    return image


class ImageView(QWidget):
    """Image as large as there is room, with sharp pixels if it is enlarged."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Logged image")
        self.image = QImage()
        self._scaled: QImage | None = None
        """The image in the size that is painted, if that is smaller."""

    def show_image(self, image: QImage) -> None:
        """Show an image."""
        self.image, self._scaled = image, None
        self.setAccessibleDescription(f"{image.width()} × {image.height()} pixels")
        self.update()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self._scaled = None

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        if self.image.isNull():
            return
        scale = min(self.width() / self.image.width(), self.height() / self.image.height())
        if scale >= 1:
            scale = min(max(1, int(scale)), _LARGEST_ENLARGEMENT)
        width, height = self.image.width() * scale, self.image.height() * scale
        if scale < 1 and self._scaled is None:
            pixels = QSize(
                max(1, round(width * self.devicePixelRatio())),
                max(1, round(height * self.devicePixelRatio())),
            )
            smooth = Qt.TransformationMode.SmoothTransformation
            self._scaled = self.image.scaled(pixels, Qt.AspectRatioMode.IgnoreAspectRatio, smooth)
        painter = QPainter(self)
        drawn = self._scaled if scale < 1 and self._scaled is not None else self.image
        painter.drawImage(QRectF((self.width() - width) / 2, 0, width, height), drawn)
        painter.end()


class HistogramView(Chart):
    """Bars of a histogram; the arrow keys and the pointer tell each bin."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, "Logged histogram", parent)
        self.body = HistogramBody((0.0, 1.0), (0,), 0)

    def show_body(self, body: HistogramBody) -> None:
        """Show a histogram."""
        self.body = body
        self.changed()

    def marks(self) -> int:
        return len(self.body.counts)

    def mark_at(self, place: QPointF) -> int | None:
        area = self._area()
        if not area.contains(place):
            return None
        return min(self.marks() - 1, int((place.x() - area.left()) / area.width() * self.marks()))

    def text_of(self, mark: int) -> str:
        low, high = self.body.edges[mark], self.body.edges[mark + 1]
        count = self.body.counts[mark]
        return f"{metric(low)} to {metric(high)}: {count:,} {'value' if count == 1 else 'values'}"

    def draw(self, painter: QPainter) -> None:
        area, colour = self._area(), self._theme.colour
        most = max(self.body.counts) or 1
        width = area.width() / self.marks()
        for mark, count in enumerate(self.body.counts):
            height = area.height() * count / most
            bar = QRectF(area.left() + mark * width, area.bottom() - height, max(1.0, width - 1), height)
            painter.fillRect(bar, colour("accent" if mark == self.mark else "busy"))
        painter.setPen(colour("line"))
        painter.drawLine(area.bottomLeft(), area.bottomRight())
        painter.setPen(colour("secondary"))
        below = QRectF(area.left(), area.bottom() + 2, area.width(), self.fontMetrics().height())
        flags = Qt.AlignmentFlag
        painter.drawText(below, flags.AlignLeft, metric(self.body.edges[0]))
        painter.drawText(below, flags.AlignRight, metric(self.body.edges[-1]))
        total = f"{sum(self.body.counts):,} values"
        if self.body.left_out:
            total += f", {self.body.left_out:,} not finite"
        painter.drawText(below, flags.AlignHCenter, total)

    def _area(self) -> QRectF:
        below = self.fontMetrics().height() + GRID
        return QRectF(self.rect()).adjusted(GRID, GRID, -GRID, -below)


class TableView(QTableWidget):
    """Table as it was logged; cells can be selected and copied."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Logged table")
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.verticalHeader().hide()
        self.setTabKeyNavigation(False)

    def show_body(self, body: TableBody) -> None:
        """Show a table."""
        self.clear()
        self.setColumnCount(len(body.columns))
        self.setRowCount(len(body.rows))
        self.setHorizontalHeaderLabels([shown(name) for name in body.columns])
        for at, row in enumerate(body.rows):
            for column, value in enumerate(row):
                item = QTableWidgetItem(shown(_as_text(value)))
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    item.setTextAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
                self.setItem(at, column, item)
        self.resizeColumnsToContents()


def _as_text(value: Cell) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class ContentView(QStackedWidget):
    """The view that fits a value."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.image, self.histogram, self.table = ImageView(), HistogramView(theme), TableView()
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setFont(font(Type.MONO))
        self.text.setAccessibleName("Logged text")
        self.text.setTabChangesFocus(True)
        for view in (QWidget(), self.image, self.text, self.histogram, self.table):
            self.addWidget(view)

    def show_content(self, content: Shown | None) -> None:
        """Show a value, or nothing."""
        if content is None:
            self.setCurrentIndex(0)
        elif isinstance(content, QImage):
            self.image.show_image(content)
            self.setCurrentWidget(self.image)
        elif isinstance(content, str):
            self.text.setPlainText(shown(content))
            self.setCurrentWidget(self.text)
        elif isinstance(content, HistogramBody):
            self.histogram.show_body(content)
            self.setCurrentWidget(self.histogram)
        else:
            self.table.show_body(content)
            self.setCurrentWidget(self.table)
