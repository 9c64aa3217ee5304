"""Custom-painted log lines: only visible rows are drawn, however many there are."""

from __future__ import annotations

from pathlib import PurePath

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFocusEvent,
    QFontMetrics,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QMenu, QWidget

from torchdeck.runs.failures.code_place import CodePlace, place_in
from torchdeck.runs.logs.line_pattern import LinePattern
from torchdeck.runs.logs.merged import LogLine
from torchdeck.shown_text import shown_line
from torchdeck_app.runs.logs.log_row import MARGIN, Highlight, RowPainter
from torchdeck_app.runs.logs.messages import LogPage
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.theme import Theme

AHEAD = 2
"""Viewport heights requested above and below the visible rows."""
END = (1 << 31) - 1  # as the first row: the last rows, however many there are


class LogArea(QAbstractScrollArea):
    """Scroll area for log rows. It requests rows by `wanted` and draws those it gets."""

    wanted = Signal(int, int)
    """Emitted with the first row (`END` for the last rows) and the number of rows."""
    follow_changed = Signal(bool)
    picked = Signal(object)
    """Emitted with the Unix time of the clicked line, or None if it has none."""
    copy_asked = Signal(int, int)
    """Emitted with the first and last row to copy."""
    source_asked = Signal(object, int)
    """Emitted with the CodePlace that a line names, and the line's rank."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._page: LogPage | None = None
        self._follow = True
        self._current = 0
        self._anchor = 0
        self._marked: int | None = None
        self._unmarked: int | None = None
        """Where it was before the time cursor came: the first row."""
        self._is_placing = False
        self._highlight = Highlight()
        self._widest = 0
        self._asked: tuple[int, int] | None = None
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFont(font(Type.MONO))
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Log lines")
        self.viewport().setCursor(Qt.CursorShape.IBeamCursor)
        self.verticalScrollBar().valueChanged.connect(self._scrolled)
        self.horizontalScrollBar().valueChanged.connect(lambda _: self.viewport().update())
        self.horizontalScrollBar().setSingleStep(24)
        theme.changed.connect(self.viewport().update)

    @property
    def follows(self) -> bool:
        """Return whether the last line is kept in view."""
        return self._follow

    @property
    def current(self) -> int:
        """Return the row that was last clicked or jumped to."""
        return self._current

    def set_follow(self, follow: bool) -> None:  # noqa: FBT001 - connected to a button's toggled(bool)
        if follow == self._follow:
            return
        self._follow = follow
        if follow:
            self.verticalScrollBar().setValue(self.verticalScrollBar().maximum())
        self._ask()
        self.follow_changed.emit(follow)

    def show_page(self, page: LogPage) -> None:
        """Draw these lines; the scroll position stays unless the end is followed."""
        before = self._page
        self._page = page
        if before is None or before.rows_of != page.rows_of:
            self._current = self._anchor = 0
            self._widest = 0
        self._widest = max([self._widest, *(len(line.text.expandtabs(8)) for line in page.lines)])
        self._set_ranges()
        self.setAccessibleDescription(f"{page.total:,} lines")
        self.viewport().update()

    def set_highlight(self, pattern: LinePattern | None) -> None:
        """Highlight the matches of a pattern."""
        self._highlight = Highlight(pattern)
        self.viewport().update()

    def go_to(self, row: int) -> None:
        """Center a row and make it current."""
        self.set_follow(follow=False)
        self._current = self._anchor = row
        self.verticalScrollBar().setValue(row - self._rows // 2)
        self.viewport().update()

    def set_marked(self, row: int | None) -> None:
        """Show the row at the time cursor; when the cursor leaves, restore the scroll position."""
        before, self._marked = self._marked, row
        bar = self.verticalScrollBar()
        if row is not None:
            if before is None:
                self._unmarked = bar.value()
            if not self._is_seen(row):
                self._place(row - self._rows // 2)
        elif self._unmarked is not None:
            self._place(bar.maximum() if self._follow else self._unmarked)
            self._unmarked = None
        self._ask()
        self.viewport().update()

    # Qt overrides

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        painter = QPainter(self.viewport())
        palette = self._theme.palette
        painter.fillRect(event.rect(), QColor(palette.surface))
        if self._page is not None and self._page.total:
            self._paint_rows(painter, self._page)
        elif self._page is not None:
            painter.setPen(QColor(palette.secondary))
            painter.drawText(self.viewport().rect(), Qt.AlignmentFlag.AlignCenter, "No line has a match")
        if self.hasFocus():
            painter.setPen(QColor(palette.accent))
            painter.drawRect(self.viewport().rect().adjusted(0, 0, -1, -1))
        painter.end()

    def _paint_rows(self, painter: QPainter, page: LogPage) -> None:
        first = self.verticalScrollBar().value()
        low, high = sorted((self._anchor, self._current))
        rows = RowPainter(
            painter,
            self._theme.palette,
            QFontMetrics(self.font()),
            self._gutter,
            self.viewport().width(),
            self.horizontalScrollBar().value(),
            self._highlight,
        )
        for number in range(min(self._rows + 1, page.total - first)):
            row = first + number
            chosen = low <= row <= high and (self.hasFocus() or low != high)
            rows.draw(self._line(row), number * self._height, chosen=chosen, marked=row == self._marked)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self._set_ranges()

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802 - Qt's name
        super().focusInEvent(event)
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802 - Qt's name
        super().focusOutEvent(event)
        self.viewport().update()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802 - Qt's name
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._set_ranges()

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802 - Qt's name
        if event.angleDelta().y() > 0:
            self.set_follow(follow=False)
        super().wheelEvent(event)
        if event.angleDelta().y() < 0 and self._is_at_end:
            self.set_follow(follow=True)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        if event.button() != Qt.MouseButton.LeftButton:
            return
        self._current = self._row_at(event.position().y())
        if not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self._anchor = self._current
        line = self._line(self._current)
        self.picked.emit(None if line is None else line.time)
        self.viewport().update()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        if event.buttons() & Qt.MouseButton.LeftButton:
            self._current = self._row_at(event.position().y())
            self.viewport().update()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        if event.button() == Qt.MouseButton.LeftButton:
            self._open_source()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802 - Qt's name
        """Offer what the line allows; by the keyboard it is the current one."""
        if event.reason() == QContextMenuEvent.Reason.Mouse:
            self._current = self._anchor = self._row_at(event.pos().y())
            self.viewport().update()
        self.menu().popup(event.globalPos())

    def menu(self) -> QMenu:
        """Create the context menu of the current line, which deletes itself."""
        menu, place = QMenu(self), self._place_named()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        where = "" if place is None else f"{shown_line(PurePath(place.file).name)}:{place.line} "
        opening = menu.addAction(f"&Open {where.replace('&', '&&')}in the editor", self._open_source)
        opening.setEnabled(place is not None)
        menu.addAction("&Copy", lambda: self.copy_asked.emit(*sorted((self._anchor, self._current))))
        return menu

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        bar = self.verticalScrollBar()
        key = event.key()
        moves = {
            Qt.Key.Key_Up: -1,
            Qt.Key.Key_Down: 1,
            Qt.Key.Key_PageUp: -self._rows,
            Qt.Key.Key_PageDown: self._rows,
            Qt.Key.Key_Home: -bar.maximum() - self._rows - 1,
            Qt.Key.Key_End: bar.maximum() + self._rows + 1,
        }
        if key in moves:
            self._move(moves[Qt.Key(key)], keep=bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier))
        elif key == Qt.Key.Key_C and event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self.copy_asked.emit(min(self._anchor, self._current), max(self._anchor, self._current))
        elif key == Qt.Key.Key_A and event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self._anchor, self._current = 0, max(0, self._total - 1)
            self.viewport().update()
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self._place_named() is not None:
            self._open_source()
        elif key in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            step = 48 if key == Qt.Key.Key_Right else -48
            self.horizontalScrollBar().setValue(self.horizontalScrollBar().value() + step)
        else:
            super().keyPressEvent(event)

    # inside

    def _place_named(self) -> CodePlace | None:
        """Return the place in code that the current line names."""
        line = self._line(self._current)
        return None if line is None else place_in(line.text)

    def _open_source(self) -> None:
        line, place = self._line(self._current), self._place_named()
        if line is not None and place is not None:
            self.source_asked.emit(place, line.source.rank)

    @property
    def _height(self) -> int:
        return QFontMetrics(self.font()).height() + 2

    @property
    def _rows(self) -> int:
        """Return the number of whole rows that fit."""
        return max(1, self.viewport().height() // self._height)

    @property
    def _total(self) -> int:
        return 0 if self._page is None else self._page.total

    @property
    def _is_at_end(self) -> bool:
        return self.verticalScrollBar().value() >= self.verticalScrollBar().maximum()

    def _is_seen(self, row: int) -> bool:
        first = self.verticalScrollBar().value()
        return first <= row < first + self._rows

    def _line(self, row: int) -> LogLine | None:
        page = self._page
        if page is None or not page.first <= row < page.first + len(page.lines):
            return None
        return page.lines[row - page.first]

    def _row_at(self, y: float) -> int:
        row = self.verticalScrollBar().value() + int(y) // self._height
        return max(0, min(row, self._total - 1))

    def _move(self, rows: int, *, keep: bool) -> None:
        self._current = max(0, min(self._current + rows, self._total - 1))
        if not keep:
            self._anchor = self._current
        bar = self.verticalScrollBar()
        if self._current < bar.value():
            bar.setValue(self._current)
        elif self._current >= bar.value() + self._rows:
            bar.setValue(self._current - self._rows + 1)
        self.set_follow(follow=self._current == self._total - 1)
        line = self._line(self._current)
        if line is not None:
            self.setAccessibleDescription(line.text)
            self.picked.emit(line.time)
        self.viewport().update()

    def _set_ranges(self) -> None:
        bar = self.verticalScrollBar()
        bar.setPageStep(self._rows)
        bar.setRange(0, max(0, self._total - self._rows))
        if self._follow and self._marked is None:
            bar.setValue(bar.maximum())
        metrics = QFontMetrics(self.font())
        width = self._gutter + self._widest * metrics.horizontalAdvance("0") + MARGIN
        across = self.horizontalScrollBar()
        across.setPageStep(self.viewport().width())
        across.setRange(0, max(0, width - self.viewport().width()))
        self._ask()

    def _scrolled(self, value: int) -> None:
        if not self._is_placing:
            self._unmarked = None  # manual scrolling is not undone
            if value < self.verticalScrollBar().maximum():
                self.set_follow(follow=False)
        self._ask()
        self.viewport().update()

    def _ask(self) -> None:
        """Request missing rows in view and around it."""
        first = max(0, self.verticalScrollBar().value() - AHEAD * self._rows)
        if self._follow and self._marked is None:
            first = END  # requested once, not again with every new line
        want = (first, (2 * AHEAD + 1) * self._rows + 1)
        if want != self._asked:
            self._asked = want
            self.wanted.emit(*want)

    def _place(self, first: int) -> None:
        """Scroll to the time cursor without ending follow mode."""
        self._is_placing = True
        self.verticalScrollBar().setValue(first)
        self._is_placing = False

    @property
    def _gutter(self) -> int:
        """Return the width in pixels before the text: the time, and the rank if there are several."""
        page = self._page
        several = page is not None and len(page.ranks) > 1 and page.choice.rank is None
        columns = 9 + (1 + len(f"r{max(page.ranks)}") if several and page is not None else 0)
        return MARGIN + columns * QFontMetrics(self.font()).horizontalAdvance("0") + MARGIN
