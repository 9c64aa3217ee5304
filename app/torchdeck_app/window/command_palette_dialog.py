"""Command palette: type a few letters, press Enter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QRect,
    QSize,
    Qt,
)
from PySide6.QtGui import QColor, QFontMetrics, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QFrame,
    QLineEdit,
    QListView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)
from shiboken6 import isValid

from torchdeck.shown_text import shown
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.panel import GRID, label
from torchdeck_app.window.palette_items import PaletteItem, ranked

RECENT = 20
"""Number of recently used items remembered."""
SHOWN = 200
"""Maximum number of lines; more letters narrow the result."""
_WIDTH, _HEIGHT = 80 * GRID, 52 * GRID
_MOVES = {
    Qt.Key.Key_Down: 1,
    Qt.Key.Key_Up: -1,
    Qt.Key.Key_PageDown: 8,
    Qt.Key.Key_PageUp: -8,
}


class CommandPalette(QFrame):
    """Palette that overlays the window while open; the focus returns to its previous widget."""

    def __init__(
        self, theme: Theme, items: Callable[[], Sequence[PaletteItem]], over: QWidget, recent: Sequence[str]
    ) -> None:
        """Args:
        theme: theme of the window.
        items: all items, in their order for an empty query.
        over: the window.
        recent: keys of the last chosen items, newest first.
        """
        super().__init__(over)
        self.setProperty("role", "overlay")
        self.setAccessibleName("Command palette")
        self._ask = items
        self._over = over
        self._recent = list(recent)[:RECENT]
        self._items: dict[str, PaletteItem] = {}
        self._before: QWidget | None = None
        self._edit = self._field()
        self._edit.installEventFilter(self)
        self._model = PaletteModel(self)
        self._view = self._list(theme)
        self._none = label("No results.", role="secondary")
        self._none.setAlignment(Qt.AlignmentFlag.AlignCenter)
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID, GRID, GRID, GRID)
        column.setSpacing(GRID)
        column.addWidget(self._edit)
        column.addWidget(self._view, 1)
        column.addWidget(self._none, 1)
        column.addWidget(label("↑ ↓ to move  ·  Enter to run  ·  Esc to close", role="secondary"))
        over.installEventFilter(self)
        self.hide()

    def _field(self) -> QLineEdit:
        made = QLineEdit()
        made.setPlaceholderText("Search actions and runs")
        made.setAccessibleName("Search actions and runs")
        made.setClearButtonEnabled(True)
        made.textChanged.connect(self._search)
        return made

    def _list(self, theme: Theme) -> QListView:
        made = QListView()
        made.setModel(self._model)
        made.setItemDelegate(PaletteDelegate(theme, made))
        made.setAccessibleName("Results")
        made.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        made.setUniformItemSizes(True)
        made.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        made.clicked.connect(lambda index: self._choose(index.row()))
        return made

    @property
    def recent(self) -> tuple[str, ...]:
        """Return the keys of the last chosen items, newest first."""
        return tuple(self._recent)

    def open(self) -> None:
        """Show the palette with an empty query."""
        if not self.isVisible():
            self._before = QApplication.focusWidget()
        self._items = {item.key: item for item in self._ask()}
        self._edit.clear()
        self._search("")
        self.place()
        self.show()
        self.raise_()
        self._edit.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def close_palette(self) -> None:
        """Hide the palette and restore the focus."""
        if not self.isVisible():
            return
        focus: QWidget | None = QApplication.focusWidget()
        had_focus = focus is not None and self.isAncestorOf(focus)
        self.hide()
        before, self._before = self._before, None
        if had_focus and before is not None and isValid(before):
            before.setFocus(Qt.FocusReason.OtherFocusReason)

    def place(self) -> None:
        """Center the palette in the window's upper part, as large as fits."""
        over = self._over
        width = min(_WIDTH, over.width() - 4 * GRID)
        height = min(_HEIGHT, over.height() - 12 * GRID)
        self.setGeometry((over.width() - width) // 2, 6 * GRID, width, height)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if watched is self._edit and isinstance(event, QKeyEvent) and event.type() is QEvent.Type.KeyPress:
            return self._key(Qt.Key(event.key()))
        if watched is self._edit and event.type() is QEvent.Type.FocusOut and self._left_for_good():
            self.close_palette()
        if watched is self._over and event.type() is QEvent.Type.Resize and self.isVisible():
            self.place()
        return super().eventFilter(watched, event)

    def _left_for_good(self) -> bool:
        """Return whether another widget of the window has the focus, not whether the whole window lost it."""
        focus: QWidget | None = QApplication.focusWidget()
        return focus is not None and not self.isAncestorOf(focus)

    def _key(self, key: Qt.Key) -> bool:
        if key == Qt.Key.Key_Escape:
            self.close_palette()
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._choose(self._view.currentIndex().row())
        elif key in _MOVES:
            self._move(_MOVES[key])
        elif key not in (Qt.Key.Key_Tab, Qt.Key.Key_Backtab):  # there is no other widget to focus
            return False
        return True

    def _move(self, by: int) -> None:
        count = self._model.rowCount()
        if not count:
            return
        row = self._view.currentIndex().row() + by
        row = row % count if abs(by) == 1 else min(max(row, 0), count - 1)
        self._select(row)

    def _select(self, row: int) -> None:
        index = self._model.index(row)
        self._view.setCurrentIndex(index)
        self._view.scrollTo(index, QAbstractItemView.ScrollHint.EnsureVisible)
        self._edit.setAccessibleDescription(index.data(Qt.ItemDataRole.AccessibleTextRole) or "")

    def _search(self, text: str) -> None:
        texts = ((key, item.text, item.detail, item.keywords) for key, item in self._items.items())
        found = ranked(text, texts, self._recent)[:SHOWN]
        self._model.show_lines([(self._items[key], fit.positions) for key, fit in found])
        self._view.setVisible(bool(found))
        self._none.setVisible(not found)
        if found:
            self._select(0)

    def _choose(self, row: int) -> None:
        if not 0 <= row < self._model.rowCount():
            return
        item = self._model.item(row)
        self._recent = [item.key, *(key for key in self._recent if key != item.key)][:RECENT]
        self.close_palette()
        item.call()


# Lines of the command palette as a Qt model, and their delegate.

Index = QModelIndex | QPersistentModelIndex
Line = tuple[PaletteItem, tuple[int, ...]]
_ROLE = Qt.ItemDataRole.UserRole
_SIGN = 3 * GRID
"""Width reserved for a run's symbol, so that all texts line up."""


class PaletteModel(QAbstractListModel):
    """Model of the results; each line is read aloud as one sentence."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._lines: list[Line] = []

    def show_lines(self, lines: list[Line]) -> None:
        """Replace the lines."""
        self.beginResetModel()
        self._lines = lines
        self.endResetModel()

    def item(self, row: int) -> PaletteItem:
        """Return the item in a row."""
        return self._lines[row][0]

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008, N802 - as Qt has it
        return 0 if parent.isValid() else len(self._lines)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        item, _ = line = self._lines[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return item.text
        if role == Qt.ItemDataRole.AccessibleTextRole:
            state = "" if item.look is None else item.look.word
            return ", ".join(part for part in (item.text, state, item.detail, item.shortcut) if part)
        return line if role == _ROLE else None


class PaletteDelegate(QStyledItemDelegate):
    """Delegate that draws symbol, text with matching letters, page and shortcut."""

    def __init__(self, theme: Theme, view: QListView) -> None:
        super().__init__(view)
        self._theme = theme
        self._view = view

    def sizeHint(self, option: QStyleOptionViewItem, _index: Index) -> QSize:  # noqa: N802 - Qt's name
        height: int = option.fontMetrics.height()
        return QSize(0, height + 2 * GRID - 2)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        item, positions = index.data(_ROLE)
        colours = self._theme.palette
        area: QRect = option.rect
        painter.save()
        if index.row() == self._view.currentIndex().row():
            painter.fillRect(area, QColor(colours.selection))
        inside = area.adjusted(GRID, 0, -GRID, 0)
        metrics = painter.fontMetrics()
        if item.look is not None:
            painter.setPen(QColor(item.look.rgb(colours)))
            painter.drawText(inside, Qt.AlignmentFlag.AlignVCenter, item.look.sign)
        right = inside.right()
        for text, colour in ((item.shortcut, colours.text), (item.detail, colours.secondary)):
            if text:
                width = metrics.horizontalAdvance(text)
                painter.setPen(QColor(colour))
                place = QRect(right - width, inside.top(), width + 1, inside.height())
                painter.drawText(place, Qt.AlignmentFlag.AlignVCenter, text)
                right -= width + 2 * GRID
        inside.setLeft(inside.left() + _SIGN)
        inside.setRight(right)
        self._draw_text(painter, inside, item.text, set(positions))
        painter.restore()

    def _draw_text(self, painter: QPainter, area: QRect, text: str, fitting: set[int]) -> None:
        """Draw matching letters in the accent colour; adjacent letters together, to keep kerning."""
        text = painter.fontMetrics().elidedText(shown(text), Qt.TextElideMode.ElideRight, area.width())
        metrics = QFontMetrics(painter.font())
        start = 0
        while start < len(text):
            end = start + 1
            while end < len(text) and (end in fitting) == (start in fitting):
                end += 1
            piece = text[start:end]
            colour = self._theme.palette.accent if start in fitting else self._theme.palette.text
            painter.setPen(QColor(colour))
            painter.drawText(area, Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine, piece)
            area.setLeft(area.left() + metrics.horizontalAdvance(piece))
            start = end
