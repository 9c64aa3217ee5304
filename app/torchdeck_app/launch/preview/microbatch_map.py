"""Heat map of microbatches over ranks."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QImage, QPainter, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from torchdeck.plan.preview.microbatches import MicrobatchTable
from torchdeck.quantities import rate
from torchdeck_app.launch.preview.data_cells import Cells, ranks_named, round_stride, summed_up
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.chart import LEVELS, Chart, levels, viridis

_HEIGHT = 224
"""Maximum height of all rows in pixels."""
_ROW = (4, 24)
_COLUMN = (10, 64)
"""Minimum and maximum width of a cell in pixels."""
_GRIDDED = 7
"""Minimum cell size in pixels for lines between cells."""
_GAP = 8
_INSET = 4
"""Space for the focus frame."""
_AXIS = 20
_LEGEND = 28
_SCALE = 160
_SHORTENED = 1e5


class HeatMap(Chart):
    """Chart whose rows are ranks or groups of ranks, and columns microbatches of consecutive steps."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, "Microbatches over ranks", parent)
        self._table: MicrobatchTable | None = None
        self._cells: Cells | None = None
        self._image = QImage()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self._colour)

    def set_table(self, table: MicrobatchTable) -> None:
        """Show `table`."""
        self._table = table
        self._sum_up()
        self.updateGeometry()

    def steps_in_sight(self, accumulation: int) -> int:
        """Return how many steps fit; at least one."""
        return max(1, int(self._room().width()) // (_COLUMN[0] * accumulation))

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(320, int(self._cells_height()) + _AXIS + _LEGEND + _INSET)

    def minimumSizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(160, self.sizeHint().height())

    def marks(self) -> int:
        if self._cells is None:
            return 0
        rows, columns = self._cells.shape
        return rows * columns

    def mark_at(self, place: QPointF) -> int | None:
        field = self._field()
        if self._cells is None or not field.contains(place):
            return None
        rows, columns = self._cells.shape
        row = int((place.y() - field.top()) / field.height() * rows)
        column = int((place.x() - field.left()) / field.width() * columns)
        return min(row, rows - 1) * columns + min(column, columns - 1)

    def moved(self, mark: int, key: Qt.Key) -> int:
        if self._cells is None:
            return 0
        rows, columns = self._cells.shape
        row, column = divmod(mark, columns)
        accumulation = 1 if self._table is None else self._table.accumulation
        match key:
            case Qt.Key.Key_Up | Qt.Key.Key_Down:
                row += 1 if key == Qt.Key.Key_Down else -1
            case Qt.Key.Key_Left | Qt.Key.Key_Right:
                column += 1 if key == Qt.Key.Key_Right else -1
            case _:
                column += accumulation if key == Qt.Key.Key_PageDown else -accumulation
        return max(0, min(row, rows - 1)) * columns + max(0, min(column, columns - 1))

    def text_of(self, mark: int) -> str:
        cells, table = self._cells, self._table
        if cells is None or table is None:
            return ""
        row, column = divmod(mark, cells.shape[1])
        ranks = slice(int(cells.rows[row]), int(cells.rows[row + 1]))
        parts = slice(int(cells.columns[column]), int(cells.columns[column + 1]))
        where = f"{_when(table, parts)}, {ranks_named(ranks.start, ranks.stop - 1)}"
        most, unit = float(cells.most[row, column]), table.unit
        if most == 0:
            return f"{where}: nothing to do"
        if (ranks.stop - ranks.start) * (parts.stop - parts.start) > 1:
            return f"{where}: at most {most:,.0f} {unit}, {cells.mean(row, column):,.1f} on average"
        return f"{where}: {_what(table, ranks.start, parts.start)}"

    def draw(self, painter: QPainter) -> None:
        cells, table = self._cells, self._table
        if cells is None or table is None:
            return
        field = self._field()
        painter.drawImage(field, self._image)
        self._draw_lines(painter, field, cells, table)
        self._draw_axes(painter, field, cells, table)
        self._draw_legend(
            painter, QRectF(field.left(), field.bottom() + _AXIS, self._room().width(), _LEGEND)
        )
        if self.mark is not None:
            self._draw_cursor(painter, self._cell(self.mark, field, cells))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self._sum_up()

    def _sum_up(self) -> None:
        table = self._table
        if table is None:
            return
        columns = int(self._room().width()) // _COLUMN[0]
        self._cells = summed_up(table.load, _HEIGHT // _ROW[0], max(1, columns))
        self._colour()
        self.changed()

    def _colour(self) -> None:
        if self._cells is None:
            return
        low, high = self._cells.span()
        pixels = viridis()[levels(self._cells.most, low, high)]
        pixels[self._cells.most <= 0] = self._theme.colour("line").rgb()
        rows, columns = pixels.shape
        kept = np.ascontiguousarray(pixels)
        self._image = QImage(kept.tobytes(), columns, rows, 4 * columns, QImage.Format.Format_RGB32).copy()

    def _room(self) -> QRectF:
        """Return the area right of the labels."""
        return QRectF(self.rect()).adjusted(_INSET + self._labels() + _GAP, 0, -_INSET, 0)

    def _labels(self) -> int:
        ranks = 0 if self._table is None else len(self._table.samples)
        return self.fontMetrics().horizontalAdvance(f"rank {max(ranks - 1, 0):,}")

    def _cells_height(self) -> float:
        rows = 1 if self._cells is None else self._cells.shape[0]
        return rows * max(_ROW[0], min(_ROW[1], _HEIGHT // rows))

    def _field(self) -> QRectF:
        room = self._room()
        columns = 1 if self._cells is None else self._cells.shape[1]
        width = columns * min(_COLUMN[1], room.width() / columns)
        return QRectF(room.left(), _INSET, width, self._cells_height())

    def _cell(self, mark: int, field: QRectF, cells: Cells) -> QRectF:
        rows, columns = cells.shape
        row, column = divmod(mark, columns)
        width, height = field.width() / columns, field.height() / rows
        left, top = round(field.left() + column * width), round(field.top() + row * height)
        right, bottom = round(field.left() + (column + 1) * width), round(field.top() + (row + 1) * height)
        return QRectF(left, top, right - left, bottom - top)

    def _draw_cursor(self, painter: QPainter, cell: QRectF) -> None:
        """Draw two frames, one of which contrasts with any colour."""
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for colour, out in ((self._theme.colour("surface"), 0.0), (self._theme.colour("text"), 1.0)):
            painter.setPen(colour)
            painter.drawRect(cell.adjusted(-out, -out, out - 1, out - 1))

    def _draw_lines(self, painter: QPainter, field: QRectF, cells: Cells, table: MicrobatchTable) -> None:
        """Draw lines between cells that are large enough; wider ones between steps."""
        ground = self._theme.colour("surface")
        rows, columns = cells.shape
        if field.height() / rows >= _GRIDDED:
            for row in range(1, rows):
                painter.fillRect(QRectF(field.left(), self._y(row, field, rows), field.width(), 1), ground)
        if field.width() / columns < _GRIDDED:
            return
        for column in range(1, columns):
            whole = cells.columns[column] % table.accumulation == 0 and table.accumulation > 1
            at = round(field.left() + column * field.width() / columns)
            painter.fillRect(QRectF(at - whole, field.top(), 1 + 2 * whole, field.height()), ground)

    def _y(self, row: int, field: QRectF, rows: int) -> int:
        return round(field.top() + row * field.height() / rows)

    def _draw_axes(self, painter: QPainter, field: QRectF, cells: Cells, table: MicrobatchTable) -> None:
        painter.setPen(self._theme.colour("secondary"))
        line = self.fontMetrics().height()
        rows = cells.shape[0]
        free = 0.0
        for row in range(rows):
            top = max(field.top() - 2, field.top() + (row + 0.5) * field.height() / rows - line / 2)
            if top >= free - 0.5:
                painter.drawText(
                    QRectF(_INSET, top, self._labels(), line), 0, f"rank {int(cells.rows[row]):,}"
                )
                free = top + (line if rows * line <= field.height() + 1 else 2 * line)
        self._draw_steps(painter, field, table)

    def _draw_steps(self, painter: QPainter, field: QRectF, table: MicrobatchTable) -> None:
        """Draw the names of steps, as many as fit, at equal distances."""
        each = field.width() / table.steps
        widest = self.fontMetrics().horizontalAdvance(f"step {table.first_step + table.steps - 1:,}") + 1
        for step in range(0, table.steps, round_stride((widest + 2 * _GAP) / each)):
            left = field.left() + step * each
            if left + widest <= self.width():
                text = f"step {table.first_step + step:,}"
                painter.drawText(QRectF(left, field.bottom() + 3, widest, _AXIS), 0, text)

    def _draw_legend(self, painter: QPainter, place: QRectF) -> None:
        if self._cells is None or self._table is None:
            return
        low, high = self._cells.span()
        texts = (_short(low), f"{_short(high)} {self._table.unit}")
        if alike := self._cells.alike():
            texts = ("", f"{_short(high)} {self._table.unit} in every microbatch")
        metrics = self.fontMetrics()
        painter.setPen(self._theme.colour("secondary"))
        top, line = place.top() + 8, metrics.height()
        left = place.left()
        for text, after in zip(texts, (0 if alike else _SCALE, 0), strict=True):
            width = metrics.horizontalAdvance(text) + 1
            painter.drawText(QRectF(left, top, width, line), 0, text)
            left += width + 6 if text else 0
            if after:
                painter.drawImage(QRectF(left, top + (line - 10) // 2, after, 10), _scale_image())
                left += after + 6
        if (self._cells.most <= 0).any():
            left += 2 * _GAP
            painter.fillRect(QRectF(left, top + (line - 10) // 2, 10, 10), self._theme.colour("line"))
            painter.drawRect(QRectF(left, top + (line - 10) // 2, 10, 10))
            painter.drawText(QRectF(left + 16, top, 200, line), 0, "nothing to do")


def _scale_image() -> QImage:
    return QImage(viridis().tobytes(), LEVELS, 1, 4 * LEVELS, QImage.Format.Format_RGB32).copy()


def _short(value: float) -> str:
    return f"{value:,.0f}" if value < _SHORTENED else rate(value)


def _when(table: MicrobatchTable, parts: slice) -> str:
    """Return `step 3, microbatch 1`; both from 0."""
    step, index = divmod(parts.start, table.accumulation)
    last, last_index = divmod(parts.stop - 1, table.accumulation)
    if (step, index) != (last, last_index):
        begins = f"step {table.first_step + step:,}, microbatch {index}"
        return f"{begins} to step {table.first_step + last:,}, microbatch {last_index}"
    alone = table.accumulation == 1
    return f"step {table.first_step + step:,}" + ("" if alone else f", microbatch {index}")


def _what(table: MicrobatchTable, rank: int, part: int) -> str:
    """Return `1,024 tokens in 8 samples, 12 % padding`."""
    samples = int(table.samples[rank, part])
    counted = f"{samples:,} sample{'' if samples == 1 else 's'}"
    if table.tokens is None:
        return counted
    text = f"{table.tokens[rank, part]:,.0f} tokens in {counted}"
    if table.padded is None:
        return text
    padded = int(table.padded[rank, part])
    share = 100 * (1 - float(table.tokens[rank, part]) / padded) if padded else 0.0
    return f"{text}, {share:.1f} % padding"
