"""The timeline as a tree: attempts as headings, what happened below them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from PySide6.QtCore import QModelIndex, QObject, Qt
from PySide6.QtGui import QColor, QStandardItem, QStandardItemModel

from torchdeck.quantities import duration, moment
from torchdeck.runs.timeline import Happening
from torchdeck.shown_text import shown
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.tooltip import plain_tip

HEADINGS = ("When", "After", "Who", "What")
_COLOURS = {
    "state": "text",
    "attempt": "text",
    "checkpoint": "good",
    "request": "accent",
    "problem": "bad",
    "detail": "secondary",
}
HAPPENING = int(Qt.ItemDataRole.UserRole)
_SHORT = 300


class TimelineModel(QStandardItemModel):
    """Two levels. What is there stays where it is: rows are added behind it, or taken from the end."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._shown: tuple[Happening, ...] = ()
        self._begun = 0.0
        self._headings: dict[int, QStandardItem] = {}
        self.setHorizontalHeaderLabels(list(HEADINGS))

    def show(self, happenings: tuple[Happening, ...], begun: float) -> None:
        """Have rows for these.

        Args:
            happenings: in the order of time.
            begun: unix time from which `After` counts.
        """
        if begun != self._begun:
            self.clear_rows()
            self._begun = begun
        pairs = zip(self._shown, happenings, strict=False)
        same = next(
            (at for at, (old, new) in enumerate(pairs) if old != new), min(len(self._shown), len(happenings))
        )
        for each in reversed(self._shown[same:]):
            self._take_last(each.attempt)
        for each in happenings[same:]:
            self._append(each)
        self._shown = happenings

    def clear_rows(self) -> None:
        """Have none; for rows that have to be made anew, in other colours."""
        self.removeRows(0, self.rowCount())
        self._headings.clear()
        self._shown = ()

    def index_of(self, happening: Happening) -> QModelIndex:
        """Where it stands; nowhere: an index that is not valid."""
        heading = self._headings.get(happening.attempt)
        if heading is None:
            return QModelIndex()
        for row in range(heading.rowCount()):
            index = self.index(row, 0, heading.index())
            if index.data(HAPPENING) == happening:
                return index
        return QModelIndex()

    def _append(self, each: Happening) -> None:
        heading = self._headings.get(each.attempt)
        if heading is None:
            heading = self._headings[each.attempt] = _heading(each.attempt)
            self.appendRow(heading)
        heading.appendRow(_row(each, self._begun, self._theme))

    def _take_last(self, attempt: int) -> None:
        heading = self._headings[attempt]
        heading.removeRow(heading.rowCount() - 1)
        if not heading.rowCount():
            del self._headings[attempt]
            self.removeRow(heading.row())


def plain(happenings: Sequence[Happening]) -> str:
    """The timeline as text, to be copied."""
    return "\n".join(f"{moment(each.time)}  {each.who}  {each.text}" for each in happenings)


def happening_at(index: QModelIndex) -> Happening | None:
    """What stands in a row; None for a heading."""
    found = index.siblingAtColumn(0).data(HAPPENING)
    return found if isinstance(found, Happening) else None


def _heading(attempt: int) -> QStandardItem:
    item = QStandardItem(f"Attempt {attempt}" if attempt else "Before the first attempt")
    item.setFont(font(Type.HEADING))
    item.setEditable(False)
    return item


def _row(each: Happening, begun: float, theme: Theme) -> list[QStandardItem]:
    clock = time.strftime("%H:%M:%S", time.localtime(each.time))
    text = each.text if len(each.text) <= _SHORT else f"{each.text[:_SHORT]}…"
    cells = (clock, f"+{duration(each.time - begun)}", each.who, text)
    tips = (
        moment(each.time),
        f"since the run was created: {each.time - begun:,.3f} s",
        each.who,
        _details(each),
    )
    row = []
    for cell, tip in zip(cells, tips, strict=True):
        item = QStandardItem(shown(cell).replace("\n", " "))
        item.setToolTip(plain_tip(tip))
        item.setEditable(False)
        item.setForeground(theme.colour("secondary"))
        row.append(item)
    row[3].setForeground(QColor(getattr(theme.palette, _COLOURS[each.kind])))
    row[0].setData(each, HAPPENING)
    return row


def _details(each: Happening) -> str:
    lines = [f"{each.event} ({each.who})", *(f"{name} = {value[:_SHORT]}" for name, value in each.details)]
    return "\n".join(lines[:20])
