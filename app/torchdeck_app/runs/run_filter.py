"""Filter above the run list: words and states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QToolButton, QVBoxLayout, QWidget

from torchdeck.runs.run_list import RunEntry
from torchdeck.runs.run_state import RunState
from torchdeck.runs.table.run_filter import STATE_GROUPS, RunFilter, groups_of
from torchdeck.shown_text import shown
from torchdeck_app.theme.icons import icon
from torchdeck_app.theme.palette import ColourName
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.flow import Flow
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.panel import GRID, label


@dataclass(frozen=True)
class Group:
    """States that are shown or hidden together."""

    key: str
    sign: str
    words: str
    colour: ColourName

    @property
    def states(self) -> frozenset[RunState | None]:
        """None stands for a run that cannot be read."""
        return STATE_GROUPS[self.key]


GROUPS = (
    Group("live", "●", "running, starting or stopping", "busy"),
    Group("unknown", "?", "unknown: no one follows them here", "warn"),
    Group("queued", "◷", "queued or pending", "quiet"),
    Group("succeeded", "✓", "succeeded", "good"),
    Group("failed", "✕", "failed, lost or unreadable", "bad"),
    Group("cancelled", "○", "cancelled", "quiet"),
)


def counts(entries: Iterable[RunEntry]) -> dict[str, int]:
    """Return the number of runs in each group, by its key."""
    found = dict.fromkeys((group.key for group in GROUPS), 0)
    alike = Counter(map(groups_of, entries))
    for keys, count in alike.items():
        for key in keys:
            found[key] += count
    return found


class _Chip(QToolButton):
    """Button as wide as its text, which Qt would pad by two spaces: five fit in the narrowest list."""

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        hint = super().sizeHint()
        hint.setWidth(self.fontMetrics().horizontalAdvance(self.text()) + GRID)
        return hint


_TIP = """Show runs in which all these words occur (Ctrl+Shift+F),
or that fulfil an expression, such as:
lr > 1e-3 and state = failed
loss < 2.5 or tag = best
grad_norm:max > 10 and loss@1000 < 4
name ~ night and not strategy = ddp"""


class FilterBar(QWidget):
    """Bar that emits the filter by `changed`."""

    changed = Signal(object)
    """Emitted with a RunFilter."""
    left_downwards = Signal()
    """Emitted on Arrow down or Return in the field, to move to the list."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._archived = False
        self.field = QLineEdit()
        self.field.setPlaceholderText("Filter: words, or lr > 1e-3 …")
        self.field.setAccessibleName("Filter runs")
        self.field.setToolTip(plain_tip(_TIP))
        self.field.setClearButtonEnabled(True)
        self._glass = self.field.addAction(
            icon("search", theme.palette), QLineEdit.ActionPosition.LeadingPosition
        )
        self._glass.setText("Filter runs")
        self._chips = {group.key: _Chip() for group in GROUPS}
        row = Flow(across=2)
        for group in GROUPS:
            chip = self._chips[group.key]
            chip.setCheckable(True)
            chip.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            chip.setAccessibleName(f"Show runs that are {group.words}")
            chip.setToolTip(f"Only runs that are {group.words}")
            chip.toggled.connect(self._tell)
            row.add(chip)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        self.problem = label(role="error", wrap=True)
        self.problem.setTextFormat(Qt.TextFormat.PlainText)
        self.problem.hide()
        self.beside = QHBoxLayout()
        self.beside.setSpacing(4)
        self.beside.addWidget(self.field, 1)
        column.addLayout(self.beside)
        column.addWidget(self.problem)
        column.addWidget(row)
        self.field.textChanged.connect(self._tell)
        self.field.returnPressed.connect(self.left_downwards)
        theme.changed.connect(self._draw)
        self.set_counts({})
        self._draw()
        self.setMinimumWidth(20 * GRID)

    @property
    def filter(self) -> RunFilter:
        """Return the current filter."""
        groups = frozenset(key for key, chip in self._chips.items() if chip.isChecked())
        return RunFilter(self.field.text(), groups, self._archived)

    def chip(self, group: str) -> QToolButton:
        """Return the button of a group of states."""
        return self._chips[group]

    def set_filter(self, wanted: RunFilter) -> None:
        """Show `wanted` in the controls."""
        self.field.setText(wanted.text)
        if wanted.archived != self._archived:
            self._archived = wanted.archived
            self._tell()
        for key, chip in self._chips.items():
            chip.setChecked(key in wanted.groups)

    def set_counts(self, counts: Mapping[str, int]) -> None:
        """Show the number of runs per group of states; a group without states is shown only if it has
        runs.
        """
        for group in GROUPS:
            chip, count = self._chips[group.key], counts.get(group.key, 0)
            chip.setText(f"{group.sign} {count:,}")
            chip.setVisible(bool(group.states or count) or chip.isChecked())

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        if event.key() == Qt.Key.Key_Down:
            self.left_downwards.emit()
        elif event.key() == Qt.Key.Key_Escape and not self.filter.is_empty:
            self.set_filter(RunFilter(archived=self._archived))
        else:
            super().keyPressEvent(event)

    def _tell(self) -> None:
        wanted = self.filter
        self.problem.setText(shown(wanted.problem))
        self.problem.setVisible(bool(wanted.problem))
        self.changed.emit(wanted)

    def _draw(self) -> None:
        self._glass.setIcon(icon("search", self._theme.palette))
        for group in GROUPS:
            colour = self._theme.palette.named(group.colour)
            self._chips[group.key].setStyleSheet(f"QToolButton {{ color: {colour}; }}")
