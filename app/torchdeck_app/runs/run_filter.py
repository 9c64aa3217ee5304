"""Filter above the run list: words and states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QLineEdit, QToolButton, QVBoxLayout, QWidget

from torchdeck.runs.query.expression import Expression, QueryError, Values, is_expression, parsed
from torchdeck.runs.query.values import values_of
from torchdeck.runs.run_list import RunEntry
from torchdeck.runs.run_state import RunState
from torchdeck.shown_text import shown
from torchdeck_app.runs.abilities import is_unfollowed
from torchdeck_app.runs.run_columns import Row
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
    states: frozenset[RunState | None]
    """None stands for a run that cannot be read."""


UNFOLLOWED = Group("unknown", "?", "unknown: no one follows them here", "warn", frozenset())
"""Runs whose current state is unknown; most users never have one."""
GROUPS = (
    Group(
        "live",
        "●",
        "running, starting or stopping",
        "busy",
        frozenset(
            {
                RunState.PREPARING,
                RunState.STARTING,
                RunState.RUNNING,
                RunState.STOPPING,
                RunState.RESTARTING,
            }
        ),
    ),
    UNFOLLOWED,
    Group("queued", "◷", "queued or pending", "quiet", frozenset({RunState.PENDING, RunState.QUEUED})),
    Group("succeeded", "✓", "succeeded", "good", frozenset({RunState.SUCCEEDED})),
    Group(
        "failed", "✕", "failed, lost or unreadable", "bad", frozenset({RunState.FAILED, RunState.LOST, None})
    ),
    Group("cancelled", "○", "cancelled", "quiet", frozenset({RunState.CANCELLED})),
)


@dataclass(frozen=True)
class RunFilter:
    """Filter by words or an expression, and by states.

    All words of `text` occur in the run, or it fulfils the expression that `text` is. Its state is in one of
    `groups` if any is given.
    """

    text: str = ""
    groups: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        return not self.text.strip() and not self.groups

    def takes(self, row: Row) -> bool:
        """Return whether the run is shown."""
        if self.groups and not any(group.key in self.groups for group in groups_of(row.entry)):
            return False
        if is_expression(self.text):
            query = _query(self.text)
            return isinstance(query, QueryError) or query.matches(_values(row))
        words = self.text.lower().split()
        return not words or all(word in _searched(row) for word in words)

    @property
    def problem(self) -> str:
        """Return why `text` is no expression though it has a comparison; all runs are shown then."""
        query = _query(self.text) if is_expression(self.text) else None
        return str(query) if isinstance(query, QueryError) else ""


@lru_cache(maxsize=8)
def _query(text: str) -> Expression | QueryError:
    try:
        return parsed(text)
    except QueryError as error:
        return error


def _values(row: Row) -> Values:
    entry = row.entry
    return {} if entry.view is None else values_of(entry.view, entry.settings, entry.progress, row.note)


def groups_of(entry: RunEntry) -> tuple[Group, ...]:
    """Return the groups of a run; none if it was not read yet."""
    if entry.view is None and not entry.is_unreadable:
        return ()
    if is_unfollowed(entry.view):
        return (UNFOLLOWED,)
    return tuple(group for group in GROUPS if entry.state in group.states)


def counts(entries: Iterable[RunEntry]) -> dict[str, int]:
    """Return the number of runs in each group, by its key."""
    found = dict.fromkeys((group.key for group in GROUPS), 0)
    for entry in entries:
        for group in groups_of(entry):
            found[group.key] += 1
    return found


def _searched(row: Row) -> str:
    entry, view = row.entry, row.entry.view
    parts = [entry.id, entry.name, *row.note.tags, row.note.text, entry.why]
    if view is not None:
        parts += [view.target, view.strategy, view.state.value, view.kind]
    return " ".join(parts).lower()


# Filter above the run list: words and states.


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
        self.field = QLineEdit()
        self.field.setPlaceholderText("Filter: words, or lr > 1e-3 …")
        self.field.setAccessibleName("Filter runs")
        self.field.setToolTip(plain_tip(_TIP))
        self.field.setClearButtonEnabled(True)
        self._glass = self.field.addAction(
            icon("search", theme.palette), QLineEdit.ActionPosition.LeadingPosition
        )
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
        column.addWidget(self.field)
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
        return RunFilter(self.field.text(), groups)

    def chip(self, group: str) -> QToolButton:
        """Return the button of a group of states."""
        return self._chips[group]

    def set_filter(self, wanted: RunFilter) -> None:
        """Show `wanted` in the controls."""
        self.field.setText(wanted.text)
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
            self.set_filter(RunFilter())
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
