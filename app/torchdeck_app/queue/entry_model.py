"""Model of the entries of the queue; entries that wait can be dragged to another place."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QMimeData,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    Signal,
)

from torchdeck.queue.entry import Stage
from torchdeck.shown_text import shown_line
from torchdeck.use_cases.queue.listing import ListedEntry
from torchdeck_app.queue.entry_cells import details, look_of, start_text, start_tip, tip
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import plain_tip

PLACE, ENTRY, NAME, STATE, NEEDS, START, PRIORITY, DETAILS = range(8)
COLUMNS = ("Place", "Entry", "Name", "State", "Asks for", "Start", "Priority", "Details")
_TIPS = {
    PLACE: "Place among the entries that wait",
    START: "Of entries that wait an estimate",
    PRIORITY: "Higher numbers start first",
    DETAILS: "Why it waits, where it runs, or how it ended",
}
_NUMBERS = (PLACE, PRIORITY)
MIME = "application/x-torchdeck-queue-entry"
Index = QModelIndex | QPersistentModelIndex
Role = Qt.ItemDataRole


class EntryModel(QAbstractTableModel):
    """Entries in the order of the queue."""

    moved = Signal(str, str)
    """Emitted with the ids of a dropped entry and of the one before which it is; empty: behind all others."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._rows: tuple[ListedEntry, ...] = ()
        self._places: dict[str, int] = {}

    @property
    def rows(self) -> tuple[ListedEntry, ...]:
        return self._rows

    @property
    def waiting(self) -> list[str]:
        """Return the ids of the entries that wait, in their order."""
        return [*self._places]

    def show_entries(self, rows: Sequence[ListedEntry]) -> None:
        """Show these; rows stay in place while the same entries are shown in the same order."""
        new, old = tuple(rows), self._rows
        if new == old:
            return
        is_same = [each.entry.id for each in new] == [each.entry.id for each in old]
        if not is_same:
            self.beginResetModel()
        self._rows = new
        waiting = (each.entry.id for each in new if each.entry.stage is Stage.WAITING)
        self._places = {entry_id: place for place, entry_id in enumerate(waiting, start=1)}
        if not is_same:
            self.endResetModel()
        elif new:
            self.dataChanged.emit(self.index(0, 0), self.index(len(new) - 1, len(COLUMNS) - 1))

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: N802, B008 - Qt's signature
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: N802, B008 - Qt's signature
        return 0 if parent.isValid() else len(COLUMNS)

    def headerData(  # noqa: N802 - Qt's name
        self, section: int, orientation: Qt.Orientation, role: int = Role.DisplayRole
    ) -> Any:
        if orientation is Qt.Orientation.Vertical:
            return None
        if role == Role.DisplayRole:
            return COLUMNS[section]
        if role == Role.ToolTipRole:
            return plain_tip(_TIPS.get(section, ""))
        return _alignment(section) if role == Role.TextAlignmentRole else None

    def data(self, index: Index, role: int = Role.DisplayRole) -> Any:
        if not index.isValid():
            return None
        listed, column = self._rows[index.row()], index.column()
        if role == Role.DisplayRole:
            return shown_line(self._text(listed, column))
        if role == Role.ForegroundRole:
            return self._ink(listed, column)
        if role == Role.TextAlignmentRole:
            return _alignment(column)
        if role == Role.ToolTipRole:
            return plain_tip(self._tip(listed, column))
        if role == Role.AccessibleTextRole and column == STATE:
            return look_of(listed).word
        return None

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Entries that wait can be dragged, and dropped between others, not onto one."""
        if not index.isValid():
            return Qt.ItemFlag.ItemIsDropEnabled
        found = super().flags(index)
        waits = self._rows[index.row()].entry.stage is Stage.WAITING
        return found | Qt.ItemFlag.ItemIsDragEnabled if waits else found

    def supportedDropActions(self) -> Qt.DropAction:  # noqa: N802 - Qt's name
        return Qt.DropAction.MoveAction

    def mimeTypes(self) -> list[str]:  # noqa: N802 - Qt's name
        return [MIME]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:  # noqa: N802 - Qt's name
        data = QMimeData()
        data.setData(MIME, self._rows[indexes[0].row()].entry.id.encode())
        return data

    def dropMimeData(  # noqa: N802 - Qt's name
        self, data: QMimeData, _action: Qt.DropAction, row: int, _column: int, parent: Index
    ) -> bool:
        """Ask for the move. Returns False: the view must not remove the row, which the queue moves."""
        entry_id = bytes(data.data(MIME).data()).decode("utf-8", "replace")
        if entry_id in self._places:
            at = parent.row() if parent.isValid() else row if row >= 0 else len(self._rows)
            behind = [each.entry.id for each in self._rows[at:] if each.entry.id in self._places]
            if behind[:1] != [entry_id]:
                self.moved.emit(entry_id, behind[0] if behind else "")
        return False

    def _text(self, listed: ListedEntry, column: int) -> str:
        entry = listed.entry
        if column == PLACE:
            return str(self._places.get(entry.id, ""))
        if column == STATE:
            look = look_of(listed)
            return f"{look.sign} {look.word}"
        if column == START:
            return start_text(listed, time.time())
        if column == PRIORITY:
            return str(entry.priority or "")
        return {ENTRY: entry.id, NAME: entry.name, NEEDS: listed.needs, DETAILS: details(listed)}[column]

    def _tip(self, listed: ListedEntry, column: int) -> str:
        if column == START:
            return start_tip(listed)
        if column == DETAILS:
            return details(listed)
        return listed.needs if column == NEEDS else tip(listed)

    def _ink(self, listed: ListedEntry, column: int) -> Any:
        if column == STATE:
            return self._theme.colour(look_of(listed).colour)
        if column == NAME and listed.entry.run:
            return self._theme.colour("accent")
        return self._theme.colour("secondary") if listed.entry.is_over else None


def _alignment(column: int) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if column in _NUMBERS else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter
