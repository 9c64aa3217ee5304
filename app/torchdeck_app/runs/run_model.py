"""Runs as rows of a Qt model, filtered, sorted and in groups; selection and scroll position stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QColor, QFont

from torchdeck.quantities import counted
from torchdeck.runs.folders.notes import Note
from torchdeck.runs.run_list import RunEntry
from torchdeck.runs.table.arrangement import Section, Summary, in_common, in_order, in_sections, summary
from torchdeck.runs.table.reading import differing_settings
from torchdeck.runs.table.row import Row
from torchdeck.runs.table.run_filter import RunFilter
from torchdeck.shown_text import shown
from torchdeck_app.runs.run_columns import COLUMNS, KEYS, NAME, STATE, Column, look_of, value_column
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import plain_tip

Index = QModelIndex | QPersistentModelIndex
ROW = int(Qt.ItemDataRole.UserRole)
"""Role of the Row; None for a group."""
MEMBERS = ROW + 1
"""Role of the rows that are selected with a row: itself, or all of a group."""
_DISPLAY = int(Qt.ItemDataRole.DisplayRole)
NO_NOTE = Note()


class _Place(NamedTuple):
    """Position of a row or group among its siblings; `group` is -1 at the top."""

    group: int
    at: int


class RunModel(QAbstractItemModel):
    """Model of the runs; groups of runs are their parents."""

    rearranged = Signal()
    """Emitted when rows have come, gone or moved."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._rows: dict[str, Row] = {}
        self._notes: Mapping[str, Note] = {}
        self._differs = DifferingSettings()
        self._now = 0.0
        self._short = False
        self._keys = KEYS
        self._columns: list[Column] = list(COLUMNS.values())
        self._filter, self._group = RunFilter(), ""
        self._asked_group = ""
        """Name of the value to group by from the next arrangement on."""
        self._sort, self._descending = KEYS.index("started"), True
        self._sections: tuple[Section, ...] = (Section("", ()),)
        self._places: dict[str, _Place] = {}
        self._summaries: dict[tuple[str, int], Summary | str] = {}
        theme.changed.connect(self._tell_all)

    @property
    def entries(self) -> tuple[RunEntry, ...]:
        return tuple(row.entry for row in self._rows.values())

    @property
    def rows(self) -> tuple[Row, ...]:
        """Return all runs, newest first, whether or not they are shown."""
        return tuple(self._rows.values())

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys of all columns."""
        return self._keys

    @property
    def filter(self) -> RunFilter:
        return self._filter

    @property
    def group(self) -> str:
        return self._asked_group

    @property
    def order(self) -> tuple[str, bool]:
        """Return the key of the column that sorts, and whether it does so descending."""
        return self._keys[self._sort], self._descending

    def shown_rows(self) -> list[Row]:
        """Return the rows that are shown or in a group, from the top."""
        return [row for section in self._sections for row in section.rows]

    def index_of(self, run_id: str, column: int = 0) -> QModelIndex:
        """Return the index of a run; an invalid one if it is not shown."""
        place = self._places.get(run_id)
        return QModelIndex() if place is None else self.createIndex(place.at, column, place.group + 1)

    def set_entries(self, entries: tuple[RunEntry, ...], now: float) -> None:
        """Show these runs, newest first; `now` in unix seconds."""
        self._now = now
        self._differs.take(entries)
        before = self._rows
        self._rows = {entry.id: self._row(entry) for entry in entries}
        self._update(before)

    def set_notes(self, notes: Mapping[str, Note]) -> None:
        """Show these tags and notes, by run id."""
        self._notes, before = notes, self._rows
        self._rows = {run_id: self._row(row.entry) for run_id, row in before.items()}
        self._update(before)

    def set_filter(self, wanted: RunFilter) -> None:
        """Show only the runs that `wanted` accepts."""
        if wanted != self._filter:
            self._filter = wanted
            self._arrange()

    def set_group(self, group: str) -> None:
        """Show groups of runs; empty: none."""
        if group != self._asked_group:
            self._asked_group = group
            self._arrange()

    def set_extra(self, names: Sequence[str]) -> None:
        """Add columns of values by their names, after the usual ones; those of before are removed."""
        extra = tuple(name for name in names if name not in COLUMNS)
        if self._keys == (*KEYS, *extra):
            return
        sort = self._keys[self._sort]
        if len(self._keys) > len(KEYS):
            self.beginRemoveColumns(QModelIndex(), len(KEYS), len(self._keys) - 1)
            self._keys, self._columns = KEYS, self._columns[: len(KEYS)]
            self._summaries.clear()
            self.endRemoveColumns()
            # Qt adjusts the indexes of groups alone, not those of the runs in them
            for index in self.persistentIndexList():
                if index.column() >= len(KEYS):
                    self.changePersistentIndex(index, QModelIndex())
        if extra:
            self.beginInsertColumns(QModelIndex(), len(KEYS), len(KEYS) + len(extra) - 1)
            self._keys = (*KEYS, *extra)
            self._columns = [*self._columns, *map(value_column, extra)]
            self.endInsertColumns()
        self._sort = self._keys.index(sort) if sort in self._keys else KEYS.index("started")

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column; runs without a value come last in either order."""
        self._sort = column if 0 <= column < len(self._keys) else KEYS.index("started")
        self._descending = order is Qt.SortOrder.DescendingOrder
        self._arrange()

    def tick(self, now: float) -> None:
        """Update relative times to `now`."""
        self._now = now
        for column, key in enumerate(KEYS):
            if COLUMNS[key].of_time:
                self._tell_column(column)

    def set_short(self, *, short: bool) -> None:
        """Set whether the state is only a symbol, without room for a heading."""
        self._short = short
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, 0)

    # Qt's interface

    def index(self, row: int, column: int, parent: Index = QModelIndex()) -> QModelIndex:  # noqa: B008 - Qt's signature
        if not (0 <= row < self.rowCount(parent) and 0 <= column < len(self._keys)):
            return QModelIndex()
        return self.createIndex(row, column, parent.row() + 1 if parent.isValid() else 0)

    def parent(self, index: Index = QModelIndex()) -> QModelIndex:  # type: ignore[override]  # noqa: B008 - QObject's parent() is another one
        group = index.internalId() if index.isValid() else 0
        return self.createIndex(group - 1, 0, 0) if group else QModelIndex()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008, N802 - Qt's signature
        if not parent.isValid():
            return len(self._sections) if self._group else len(self._sections[0].rows)
        if not self._group or parent.internalId() or parent.column() > 0:
            return 0
        return len(self._sections[parent.row()].rows)

    def columnCount(self, _parent: Index = QModelIndex()) -> int:  # noqa: B008, N802 - Qt's signature
        return len(self._keys)

    def headerData(  # noqa: N802 - Qt's name
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is not Qt.Orientation.Horizontal or section >= len(self._keys):
            return None
        column = self._columns[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return "" if self._short and self._keys[section] == STATE else shown(column.title)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(is_number=column.is_number)
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        group = index.internalId()
        if self._group and not group:
            return self._group_data(self._sections[index.row()], index.column(), role)
        row = self._sections[max(0, group - 1)].rows[index.row()]
        column = self._columns[index.column()]
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return shown(column.text(row, self._now))
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tip((column.exact or column.text)(row, self._now))
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(is_number=column.is_number)
        if role == Qt.ItemDataRole.ForegroundRole:
            return self._ink(row, self._keys[index.column()])
        return row if role == ROW else (row,) if role == MEMBERS else None

    def cell(self, index: Index) -> tuple[str, QColor | None, bool, bool]:
        """Return text, colour, and whether it is a number and bold: all that a cell needs, in one call."""
        group, number = index.internalId(), index.column()
        column = self._columns[number]
        if self._group and not group:
            text = self._group_data(self._sections[index.row()], number, _DISPLAY)
            return text, None, column.is_number, self._keys[number] == NAME
        row = self._sections[max(0, group - 1)].rows[index.row()]
        ink = self._ink(row, self._keys[number])
        return shown(column.text(row, self._now)), ink, column.is_number, False

    def _group_data(self, section: Section, column: int, role: int) -> Any:
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            if self._keys[column] == NAME:
                return shown(f"{section.title} · {counted(len(section.rows), 'run')}")
            found = self._summary(section, column)
            return shown(found if isinstance(found, str) else found.text)
        if role == Qt.ItemDataRole.ToolTipRole:
            if self._keys[column] == NAME:
                return plain_tip("\n".join((section.title, *(row.label for row in section.rows[:20]))))
            found = self._summary(section, column)
            return plain_tip(found if isinstance(found, str) else found.exact)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(is_number=self._columns[column].is_number)
        if role == Qt.ItemDataRole.FontRole and self._keys[column] == NAME:
            font = QFont()
            font.setWeight(QFont.Weight.DemiBold)
            return font
        return section.rows if role == MEMBERS else None

    def _summary(self, section: Section, column: int) -> Summary | str:
        """Return mean and deviation of a column of numbers, or the text that all rows have."""
        known = self._summaries.get((section.title, column))
        if known is None:
            found = self._columns[column]
            same = in_common(filter(None, (found.text(row, self._now) for row in section.rows)))
            numbers = summary(found.key(row) for row in section.rows) if found.is_number else None
            known = numbers if numbers is not None and not same else same
            if not found.of_time:
                self._summaries[section.title, column] = known
        return known

    def _ink(self, row: Row, key: str) -> QColor | None:
        if key == STATE:
            return QColor(look_of(row.entry).rgb(self._theme.palette))
        if row.note.archived:
            return self._theme.colour("secondary")
        return None if key in ("name", "loss", "step") or key not in KEYS else self._theme.colour("secondary")

    def _row(self, entry: RunEntry) -> Row:
        """Return the row of a run: the same object while nothing of it changes."""
        note, differs = self._notes.get(entry.id, NO_NOTE), self._differs.of(entry)
        old = self._rows.get(entry.id)
        if old is not None and old.entry is entry and old.note == note and old.differs == differs:
            return old
        return Row(entry, note, differs)

    def _update(self, before: Mapping[str, Row]) -> None:
        """Show what is different from `before`."""
        changed = [run_id for run_id, row in self._rows.items() if before.get(run_id) is not row]
        if not changed and len(before) == len(self._rows):
            return
        old = self._places
        if len(before) == len(self._rows) and all(self._keeps_place(before, each) for each in changed):
            self._replace({run_id: self._rows[run_id] for run_id in changed})
        else:
            self._arrange()
        for run_id in changed:
            if run_id in old and run_id in self._places:
                last = self.index_of(run_id, len(self._keys) - 1)
                self.dataChanged.emit(self.index_of(run_id), last)
        if self._group and changed:
            self._tell_all()

    def _keeps_place(self, before: Mapping[str, Row], run_id: str) -> bool:
        """Return whether a run stays where it is: not one in a group, which may be another now."""
        old, new, key = before.get(run_id), self._rows[run_id], self._columns[self._sort].key
        if old is None or self._asked_group or old.note.pinned is not new.note.pinned:
            return False
        return key(old) == key(new) and self._filter.takes(old) == self._filter.takes(new)

    def _replace(self, changed: Mapping[str, Row]) -> None:
        (section,) = self._sections
        rows = list(section.rows)
        for run_id, row in changed.items():
            if run_id in self._places:
                rows[self._places[run_id].at] = row
        self._sections = (Section("", tuple(rows)),)

    def _arrange(self) -> None:
        """Filter, sort and group; rows keep their selection wherever they go."""
        key = self._columns[self._sort].key
        rows = in_order(filter(self._filter.takes, self._rows.values()), key, descending=self._descending)
        asked = self._asked_group
        sections = in_sections(rows, asked)
        places: dict[str, _Place] = {}
        for number, section in enumerate(sections):
            group = number if asked else -1
            places.update((row.entry.id, _Place(group, at)) for at, row in enumerate(section.rows))
        titles = [section.title for section in sections]
        self._summaries.clear()
        if places == self._places and titles == [section.title for section in self._sections]:
            self._sections, self._group = sections, asked
            return
        self.layoutAboutToBeChanged.emit()
        old = self.persistentIndexList()
        names = [self._name_of(index) for index in old]
        self._sections, self._places, self._group = sections, places, asked
        groups = {title: number for number, title in enumerate(titles)} if asked else {}
        self.changePersistentIndexList(
            old,
            [self._found(name, index.column(), groups) for name, index in zip(names, old, strict=True)],
        )
        self.layoutChanged.emit()
        self.rearranged.emit()

    def _name_of(self, index: QModelIndex) -> tuple[str, bool]:
        """Return the id of a run, or the title of a group and True."""
        group = index.internalId()
        if self._group and not group:
            return self._sections[index.row()].title, True
        return self._sections[max(0, group - 1)].rows[index.row()].entry.id, False

    def _found(self, name: tuple[str, bool], column: int, groups: Mapping[str, int]) -> QModelIndex:
        text, is_group = name
        if not is_group:
            return self.index_of(text, column)
        return self.createIndex(groups[text], column, 0) if text in groups else QModelIndex()

    def _tell_column(self, column: int) -> None:
        top = self.rowCount()
        if top:
            self.dataChanged.emit(
                self.index(0, column), self.index(top - 1, column), [Qt.ItemDataRole.DisplayRole]
            )

    def _tell_all(self) -> None:
        top = self.rowCount()
        if top:
            self.dataChanged.emit(self.index(0, 0), self.index(top - 1, len(self._keys) - 1))


class DifferingSettings:
    """In what the runs of one program differ; compared again only when a run comes or goes."""

    def __init__(self) -> None:
        self._compared: list[tuple[str, int]] = []
        self._texts: dict[str, str] = {}

    def take(self, entries: Sequence[RunEntry]) -> None:
        """Compare these runs."""
        compared = [(entry.id, len(entry.settings)) for entry in entries]
        if compared != self._compared:
            self._compared, self._texts = compared, differing_settings(entries)

    def of(self, entry: RunEntry) -> str:
        """Return the text for one of the runs."""
        return self._texts.get(entry.id, "")


def _alignment(*, is_number: bool) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if is_number else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter
