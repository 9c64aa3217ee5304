"""Runs as rows of a Qt model: only changes are signaled, so that selection and scroll position stay."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, cast

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QSortFilterProxyModel,
    Qt,
)
from PySide6.QtGui import QColor

from torchdeck.runs.folders.notes import Note
from torchdeck.runs.folders.settings import Settings, differing
from torchdeck.runs.run_list import RunEntry
from torchdeck.shown_text import shown
from torchdeck_app.runs.run_columns import COLUMNS, KEYS, STATE, Row, look_of
from torchdeck_app.runs.run_filter import RunFilter
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import plain_tip

Index = QModelIndex | QPersistentModelIndex
ROW = int(Qt.ItemDataRole.UserRole)
"""Role of the Row."""
NO_NOTE = Note()


class RunModel(QAbstractTableModel):
    """Table model of all runs, newest first."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._rows: list[Row] = []
        self._notes: Mapping[str, Note] = {}
        self._differs = DifferingSettings()
        self._now = 0.0
        self._short = False
        theme.changed.connect(self._tell_all)

    @property
    def entries(self) -> tuple[RunEntry, ...]:
        return tuple(row.entry for row in self._rows)

    def row_of(self, run_id: str) -> int | None:
        """Return the row of a run; None if it is not there."""
        return next((at for at, row in enumerate(self._rows) if row.entry.id == run_id), None)

    def set_entries(self, entries: tuple[RunEntry, ...], now: float) -> None:
        """Show these runs; `now` in unix seconds."""
        self._now = now
        self._differs.take(entries)
        wanted = {entry.id for entry in entries}
        for at in range(len(self._rows) - 1, -1, -1):
            if self._rows[at].entry.id not in wanted:
                self.beginRemoveRows(QModelIndex(), at, at)
                del self._rows[at]
                self.endRemoveRows()
        if self._rows:
            self._take(entries)
        elif entries:
            self.beginInsertRows(QModelIndex(), 0, len(entries) - 1)
            self._rows = [self._row(entry) for entry in entries]
            self.endInsertRows()

    def set_notes(self, notes: Mapping[str, Note]) -> None:
        """Show these tags and notes, by run id."""
        self._notes = notes
        for at, row in enumerate(self._rows):
            if row.note != notes.get(row.entry.id, NO_NOTE):
                self._rows[at] = self._row(row.entry)
                self._tell(at)

    def tick(self, now: float) -> None:
        """Update relative times to `now`."""
        self._now = now
        if self._rows:
            for column, key in enumerate(KEYS):
                if COLUMNS[key].of_time:
                    shown = [Qt.ItemDataRole.DisplayRole]
                    self.dataChanged.emit(
                        self.index(0, column), self.index(len(self._rows) - 1, column), shown
                    )

    def set_short(self, *, short: bool) -> None:
        """Set whether the state is only a symbol, without room for a heading."""
        self._short = short
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, 0)

    def row(self, at: int) -> Row:
        """Return the row at this position."""
        return self._rows[at]

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008, N802 - Qt's signature
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008, N802 - Qt's signature
        return 0 if parent.isValid() else len(KEYS)

    def headerData(  # noqa: N802 - Qt's name
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        column = COLUMNS[KEYS[section]]
        if role == Qt.ItemDataRole.DisplayRole:
            return "" if self._short and KEYS[section] == STATE else column.title
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(is_number=column.is_number)
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row, key = self._rows[index.row()], KEYS[index.column()]
        column = COLUMNS[key]
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return shown(column.text(row, self._now))
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tip((column.exact or column.text)(row, self._now))
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(is_number=column.is_number)
        if role == Qt.ItemDataRole.ForegroundRole:
            return self._ink(row, key)
        return row if role == ROW else None

    def _ink(self, row: Row, key: str) -> QColor | None:
        if key == STATE:
            return QColor(look_of(row.entry).rgb(self._theme.palette))
        return None if key in ("name", "loss", "step") else self._theme.colour("secondary")

    def _take(self, entries: tuple[RunEntry, ...]) -> None:
        """Merge the entries: existing rows keep their order, which is that of ids; new ones go between
        them.
        """
        for at, entry in enumerate(entries):
            if at < len(self._rows) and self._rows[at].entry.id == entry.id:
                if self._rows[at].entry is not entry or self._rows[at].differs != self._differs.of(entry):
                    self._rows[at] = self._row(entry)
                    self._tell(at)
            else:
                self.beginInsertRows(QModelIndex(), at, at)
                self._rows.insert(at, self._row(entry))
                self.endInsertRows()

    def _row(self, entry: RunEntry) -> Row:
        return Row(entry, self._notes.get(entry.id, NO_NOTE), self._differs.of(entry))

    def _tell(self, at: int) -> None:
        self.dataChanged.emit(self.index(at, 0), self.index(at, len(KEYS) - 1))

    def _tell_all(self) -> None:
        if self._rows:
            self.dataChanged.emit(self.index(0, 0), self.index(len(self._rows) - 1, len(KEYS) - 1))


class DifferingSettings:
    """In what the runs of one program differ; compared again only when a run comes or goes."""

    def __init__(self) -> None:
        self._compared: list[tuple[str, int]] = []
        self._texts: dict[str, str] = {}

    def take(self, entries: Sequence[RunEntry]) -> None:
        """Compare these runs."""
        compared = [(entry.id, len(entry.settings)) for entry in entries]
        if compared == self._compared:
            return
        self._compared, self._texts = compared, {}
        programs: dict[tuple[str, str], dict[str, Settings]] = defaultdict(dict)
        for entry in entries:
            if entry.view is not None:
                programs[entry.view.kind, entry.view.target][entry.id] = entry.settings
        for runs in programs.values():
            self._texts |= differing(runs)

    def of(self, entry: RunEntry) -> str:
        """Return the text for one of the runs."""
        return self._texts.get(entry.id, "")


class ArrangedRuns(QSortFilterProxyModel):
    """Filtered and sorted runs; rows without a value come last in either order."""

    def __init__(self, model: RunModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._filter = RunFilter()
        self.setSourceModel(model)
        self.setDynamicSortFilter(True)

    @property
    def filter(self) -> RunFilter:
        return self._filter

    def set_filter(self, wanted: RunFilter) -> None:
        """Show only the runs that `wanted` accepts."""
        if wanted != self._filter:
            self._filter = wanted
            self.invalidate()

    def filterAcceptsRow(self, row: int, _parent: Index) -> bool:  # noqa: N802 - Qt's name
        return self._filter.takes(self._row(row))

    def lessThan(self, left: Index, right: Index) -> bool:  # noqa: N802 - Qt's name
        column = COLUMNS[KEYS[left.column()]]
        one, other = column.key(self._row(left.row())), column.key(self._row(right.row()))
        one, other = _comparable(one), _comparable(other)
        if one is None or other is None:
            last_is_greater = self.sortOrder() is Qt.SortOrder.AscendingOrder
            if one is None and other is None:
                return False
            return (other is None) is last_is_greater
        return one < other  # type: ignore[operator]  # both are of one column: texts, or numbers

    def _row(self, row: int) -> Row:
        return cast("RunModel", self.sourceModel()).row(row)


def _comparable(key: str | float | None) -> str | float | None:
    """Return the key, or None for NaN."""
    return None if isinstance(key, float) and key != key else key


def _alignment(*, is_number: bool) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if is_number else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter
