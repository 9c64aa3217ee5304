"""Small window with a checkbox per column, and a field that searches them and adds values at a step."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPoint, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QDialog,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from torchdeck.runs.query.metric_values import metric_key
from torchdeck.shown_text import shown
from torchdeck_app.runs.run_columns import COLUMNS, NAME, STATE, key_named
from torchdeck_app.widgets.panel import GRID, label

_KEY = Qt.ItemDataRole.UserRole
_SIZE = 320, 420


class ColumnChooser(QDialog):
    """Dialog that stays open next to the list; changes apply at once."""

    chosen = Signal(object)
    """Emitted with the keys of the columns in their order, or None for as many of the usual ones as fit."""

    def __init__(self, offered: Sequence[str], chosen: Sequence[str], parent: QWidget) -> None:
        """Create it.

        Args:
            offered: names of values besides the usual columns.
            chosen: keys of the columns that are shown.
            parent: Qt parent.
        """
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Columns")
        self.field = QLineEdit()
        self.field.setPlaceholderText("Find a setting or metric, or loss@1000")
        self.field.setAccessibleName("Find a column")
        self.field.setClearButtonEnabled(True)
        self.field.textChanged.connect(self._filter)
        self.field.returnPressed.connect(self._toggle_first)
        self.list = QListWidget()
        self.list.setAccessibleName("Columns")
        self.usual = QPushButton("As many as fit")
        self.usual.setAutoDefault(False)
        self.usual.setToolTip("Show the usual columns, as many as there is room for")
        self.usual.clicked.connect(self._choose_usual)
        self._typed = QListWidgetItem()
        keys = dict.fromkeys((*COLUMNS, *chosen, *map(key_named, offered)))
        for key in keys:
            if key not in (STATE, NAME):
                self._add(key, on=key in chosen)
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID, GRID, GRID, GRID)
        column.setSpacing(GRID)
        column.addWidget(self.field)
        column.addWidget(self.list, 1)
        told = "Metrics have :best, :min, :max and @STEP."
        column.addWidget(label(told, role="secondary", wrap=True))
        column.addWidget(self.usual)
        self.list.itemChanged.connect(self._tell)
        self.resize(*_SIZE)

    def open_at(self, at: QPoint) -> None:
        """Show it at a screen position, within the screen."""
        room = self.screen().availableGeometry()
        left = min(at.x(), room.right() - self.width())
        self.move(max(room.left(), left), max(room.top(), min(at.y(), room.bottom() - self.height())))
        self.show()
        self.field.setFocus(Qt.FocusReason.OtherFocusReason)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            return  # of the field, which toggles a column
        if event.key() == Qt.Key.Key_Down and self.field.hasFocus():
            self.list.setFocus(Qt.FocusReason.TabFocusReason)
        else:
            super().keyPressEvent(event)

    def _add(self, key: str, *, on: bool, at: int | None = None) -> QListWidgetItem:
        title = COLUMNS[key].title if key in COLUMNS else key
        item = QListWidgetItem(shown(title))
        item.setData(_KEY, key)
        item.setFlags(
            Qt.ItemFlag.ItemIsUserCheckable | Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
        )
        item.setCheckState(Qt.CheckState.Checked if on else Qt.CheckState.Unchecked)
        self.list.insertItem(self.list.count() if at is None else at, item)
        return item

    def _filter(self, text: str) -> None:
        text = text.strip()
        items = [self.list.item(number) for number in range(self.list.count())]
        for item in items:
            item.setHidden(text.lower() not in f"{item.text()} {item.data(_KEY)}".lower())
        if metric_key(text) is not None and all(item.data(_KEY) != text for item in items):
            self.list.takeItem(self.list.row(self._typed))
            with QSignalBlocker(self.list):
                self._typed = self._add(text, on=False, at=0)

    def _toggle_first(self) -> None:
        """Toggle the first column that the text finds."""
        for number in range(self.list.count()):
            item = self.list.item(number)
            if not item.isHidden():
                on = item.checkState() == Qt.CheckState.Checked
                item.setCheckState(Qt.CheckState.Unchecked if on else Qt.CheckState.Checked)
                return

    def _tell(self, item: QListWidgetItem) -> None:
        if item is self._typed:
            self._typed = QListWidgetItem()  # it stays now
        items = [self.list.item(number) for number in range(self.list.count())]
        self.chosen.emit(
            tuple(each.data(_KEY) for each in items if each.checkState() == Qt.CheckState.Checked)
        )

    def _choose_usual(self) -> None:
        self.chosen.emit(None)
        self.close()
