"""The command palette: type a few letters, press Enter."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QFrame,
    QLineEdit,
    QListView,
    QVBoxLayout,
    QWidget,
)
from shiboken6 import isValid

from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.panel import GRID, label
from torchdeck_app.window.command_palette.items import PaletteItem
from torchdeck_app.window.command_palette.list_model import PaletteDelegate, PaletteModel
from torchdeck_app.window.command_palette.matching import ranked

RECENT = 20
"""Of what was used lately is remembered."""
SHOWN = 200
"""Lines at most; who looks for more types another letter."""
_WIDTH, _HEIGHT = 80 * GRID, 52 * GRID
_MOVES = {
    Qt.Key.Key_Down: 1,
    Qt.Key.Key_Up: -1,
    Qt.Key.Key_PageDown: 8,
    Qt.Key.Key_PageUp: -8,
}


class CommandPalette(QFrame):
    """Lies over the window while it is open; focus goes back to where it was."""

    def __init__(
        self, theme: Theme, items: Callable[[], Sequence[PaletteItem]], over: QWidget, recent: Sequence[str]
    ) -> None:
        """Args:
        theme: of the window.
        items: all that can be chosen now, in the order shown where nothing was typed.
        over: the window.
        recent: keys of what was chosen last, the newest first.
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
        self._none = label("Nothing is called so.", role="secondary")
        self._none.setAlignment(Qt.AlignmentFlag.AlignCenter)
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID, GRID, GRID, GRID)
        column.setSpacing(GRID)
        column.addWidget(self._edit)
        column.addWidget(self._view, 1)
        column.addWidget(self._none, 1)
        column.addWidget(label("↑ ↓ to move  ·  Enter to do it  ·  Esc to close", role="secondary"))
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
        made.setAccessibleName("What was found")
        made.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        made.setUniformItemSizes(True)
        made.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        made.clicked.connect(lambda index: self._choose(index.row()))
        return made

    @property
    def recent(self) -> tuple[str, ...]:
        """Keys of what was chosen last, the newest first."""
        return tuple(self._recent)

    def open(self) -> None:
        """Show it with nothing typed."""
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
        """Hide it, and give the focus back."""
        if not self.isVisible():
            return
        focus: QWidget | None = QApplication.focusWidget()
        had_focus = focus is not None and self.isAncestorOf(focus)
        self.hide()
        before, self._before = self._before, None
        if had_focus and before is not None and isValid(before):
            before.setFocus(Qt.FocusReason.OtherFocusReason)

    def place(self) -> None:
        """In the middle of the window's upper part, as large as there is room."""
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
        """Another widget of the window has the focus; not that the whole window lost it."""
        focus: QWidget | None = QApplication.focusWidget()
        return focus is not None and not self.isAncestorOf(focus)

    def _key(self, key: Qt.Key) -> bool:
        if key == Qt.Key.Key_Escape:
            self.close_palette()
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._choose(self._view.currentIndex().row())
        elif key in _MOVES:
            self._move(_MOVES[key])
        elif key not in (Qt.Key.Key_Tab, Qt.Key.Key_Backtab):  # there is nowhere else to go
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
