"""Comparison of several runs: overlaid curves, different settings and final values."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QTabWidget, QVBoxLayout, QWidget

from torchdeck.config.toml.merge import ABSENT, as_shown, leaves, same
from torchdeck.quantities import duration, metric, moment, size
from torchdeck.runs.folders.notes import Note
from torchdeck.runs.run_list import RunEntry
from torchdeck.runs.table.reading import rows_of
from torchdeck.runs.table.row import Row
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.runs.page.configuration_panel import GridTable
from torchdeck_app.runs.plots.plot_grid import PlotGrid
from torchdeck_app.runs.run_columns import COLUMNS, lasted
from torchdeck_app.runs.run_configuration import Configuration, read_configuration
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.panel import GRID, label
from torchdeck_app.widgets.splitter import Splitter

MOST = 64
"""Maximum number of runs compared at once. Above eight, as many as colours, plots show mean and deviation."""


class CompareView(QWidget):
    """View of two to 64 runs."""

    def __init__(
        self,
        theme: Theme,
        operations: Operations,
        entries: tuple[RunEntry, ...],
        parent: QWidget | None = None,
        *,
        notes: Mapping[str, Note] = MappingProxyType({}),
    ) -> None:
        super().__init__(parent)
        self._operations = operations
        self._notes = notes
        self.asked_for = tuple(entry.id for entry in entries)
        self.entries = entries[:MOST]
        self._tables: list[Configuration] = []
        self._title = label(f"{len(self.entries)} runs compared", Type.HEADING)
        self._said = label("", role="secondary", wrap=True)
        self._said.setTextFormat(Qt.TextFormat.PlainText)
        if len(entries) > MOST:
            self._say(f"Showing the first {MOST} of {len(entries):,} selected runs.")
        self._names = names_of(self.entries, notes)
        self.plots = PlotGrid(theme, self.entries[0].layout)
        self.plots.set_runs([entry.layout for entry in self.entries], self._names)
        self.values = GridTable("Values at the end")
        self.configuration = GridTable("Differences of the configurations")
        self.every = QCheckBox("Show &identical settings")
        self.every.setToolTip("Show every key that any of the runs sets")
        self.every.toggled.connect(self._show_configuration)
        self._lay_out()
        self._said.setVisible(bool(self._said.text()))
        self.set_entries(entries)
        self._read()

    def _lay_out(self) -> None:
        page = QWidget()
        below = QVBoxLayout(page)
        below.setContentsMargins(0, 0, 0, 0)
        below.addWidget(self.every)
        below.addWidget(self.configuration, 1)
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.addTab(self.values, "End &values")
        self.tabs.addTab(page, "Configuration")
        splitter = Splitter("Height of the plots", Qt.Orientation.Vertical)
        splitter.addWidget(self.plots)
        splitter.addWidget(self.tabs)
        splitter.setStretchFactor(0, 2)
        splitter.setStretchFactor(1, 1)
        splitter.setChildrenCollapsible(False)
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID, GRID, GRID, 0)
        column.setSpacing(GRID)
        column.addWidget(self._title)
        column.addWidget(self._said)
        column.addWidget(splitter, 1)

    def set_entries(self, entries: tuple[RunEntry, ...]) -> None:
        """Update the state of the same runs."""
        fresh = {entry.id: entry for entry in entries}
        self.entries = tuple(fresh.get(entry.id, entry) for entry in self.entries)
        views = [entry.view for entry in self.entries if entry.view is not None]
        if views:
            self.plots.show_view(next((view for view in views if not view.is_over), views[0]))
        headings = ("", *names_of(self.entries, self._notes))
        self.values.set_rows(headings, end_values(self.entries, time.time()))

    def set_notes(self, notes: Mapping[str, Note]) -> None:
        """Show the names that the user gave the runs."""
        self._notes = notes
        names = names_of(self.entries, notes)
        if names != self._names:
            self._names = names
            self.plots.set_runs([entry.layout for entry in self.entries], names)
            self.set_entries(self.entries)
            self._show_configuration()

    def entered(self) -> None:
        """Called when the view becomes visible."""
        self.plots.entered()

    def left(self) -> None:
        """Called when the view is hidden."""
        self.plots.left()

    def closing(self) -> None:
        """End the threads."""
        self.plots.closing()

    def _read(self) -> None:
        layouts = [entry.layout for entry in self.entries]
        self._operations.run(
            "reading the configurations of the compared runs",
            lambda _progress, _cancel: [read_configuration(layout) for layout in layouts],
            done=self._take,
            failed=lambda error: self._say(f"The configurations cannot be read: {error}"),
        )

    def _take(self, found: list[Configuration]) -> None:
        self._tables = found
        self._show_configuration()

    def _show_configuration(self) -> None:
        rows = configuration_rows([each.table for each in self._tables], every=self.every.isChecked())
        self.configuration.set_rows(("Key", *names_of(self.entries, self._notes)), rows, fixed_width=True)

    def _say(self, text: str) -> None:
        self._said.setText(text)
        self._said.setVisible(bool(text))


def names_of(entries: tuple[RunEntry, ...], notes: Mapping[str, Note]) -> list[str]:
    """Return a unique name per run: the given or its own with what differs, and its id if needed."""
    labels = [row.label for row in rows_of(entries, notes)]
    return [
        f"{name} {entry.id[-6:]}" if labels.count(name) > 1 else name
        for entry, name in zip(entries, labels, strict=True)
    ]


# Tables of a comparison of several runs.


def configuration_rows(tables: Sequence[Mapping[str, Any]], *, every: bool = False) -> list[tuple[str, ...]]:
    """Return one row per key: its name and its value in each run.

    Args:
        tables: the content of each run's file, without defaults.
        every: include keys with identical values.
    """
    opened = [dict(leaves(table)) for table in tables]
    paths = list(dict.fromkeys(path for table in opened for path in table))
    rows = []
    for path in paths:
        values = [table.get(path, ABSENT) for table in opened]
        if every or not all(same(values[0], value) for value in values[1:]):
            rows.append((".".join(path), *(as_shown(value, 120) for value in values)))
    return rows


def end_values(entries: Sequence[RunEntry], now: float) -> list[tuple[str, ...]]:
    """Return one row per quantity: its name and each run's final or current value."""
    rows = [Row(entry, Note()) for entry in entries]

    def shown(key: str) -> tuple[str, ...]:
        return tuple(COLUMNS[key].text(row, now) or "–" for row in rows)

    def progress(name: str) -> list[float | None]:
        found = [getattr(row.entry.progress, name, None) for row in rows]
        return [float(value) if isinstance(value, int | float) else None for value in found]

    took = [lasted(row, now) for row in rows]
    views = [row.entry.view for row in rows]
    return [
        ("State", *shown("state")),
        ("Step", *shown("step")),
        ("Epoch", *shown("epoch")),
        ("Loss", *(_said(value, metric) for value in progress("loss"))),
        ("Validation loss", *(_said(value, metric) for value in progress("validation_loss"))),
        ("Throughput", *shown("throughput")),
        ("Peak memory (max rank)", *(_said(value, size) for value in progress("memory_bytes"))),
        ("Strategy", *shown("strategy")),
        ("Ranks", *shown("ranks")),
        ("Attempts", *("–" if view is None else f"{len(view.attempts):,}" for view in views)),
        ("Started", *("–" if view is None else moment(view.started) for view in views)),
        ("Took", *(_said(value, duration) for value in took)),
        ("Time left", *shown("eta")),
    ]


def _said(value: float | None, words: Any) -> str:
    return "–" if value is None else str(words(value))
