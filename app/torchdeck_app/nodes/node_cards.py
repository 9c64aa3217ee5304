"""Grid of all inventory nodes; if there are none, a hint how to add some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QMenu,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QStackedWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.probe.facts import RunHere
from torchdeck_app.nodes.card_words import (
    HELPS,
    LOOKS,
    address_words,
    cpu_words,
    lacks,
    machine_details,
    machine_words,
    memory_words,
    orphan_words,
    run_words,
    why_words,
    with_fix,
)
from torchdeck_app.nodes.device_row import DeviceRow
from torchdeck_app.nodes.node_sight import NodeSight, Standing, python_fault
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.chart import UsageChart
from torchdeck_app.widgets.inputs import leave, set_visible
from torchdeck_app.widgets.labels import ElidedLabel, WrappedText, control_text, plain_tip
from torchdeck_app.widgets.panel import GRID, EmptyState, Panel, label
from torchdeck_app.widgets.state_badge import StateBadge

_EMPTY = (
    "Each machine that you reach by SSH gets a card here, with its hardware, its GPUs' load and their "
    "owners. It needs only Python and, for training, torch."
)


class NodeGrid(QStackedWidget):
    """Grid with a card per node."""

    add_asked = Signal()
    import_asked = Signal()
    run_asked = Signal(str)
    help_asked = Signal(str)
    clean_asked = Signal(str)
    edit_asked = Signal(str)
    remove_asked = Signal(str)
    terminal_asked = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.cards: dict[str, NodeCard] = {}
        self._grid = CardGrid()
        inside = QWidget()
        column = QVBoxLayout(inside)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.addWidget(self._grid)
        self.area = QScrollArea()
        self.area.setAccessibleName("Nodes of the node inventory")
        self.area.setFrameShape(QFrame.Shape.NoFrame)
        self.area.setProperty("role", "scrolled")
        self.area.setWidgetResizable(True)
        self.area.setWidget(inside)
        self.empty = EmptyState(
            theme, "nodes", "No nodes yet", _EMPTY, button="Add a node …", pressed=self.add_asked.emit
        )
        self.empty.button.setToolTip("Add a node to the node inventory")
        self.import_button = QPushButton("Import from ~/.ssh/config …")
        self.import_button.setToolTip("Import the hosts of your SSH config as nodes")
        self.import_button.clicked.connect(self.import_asked)
        self.empty.add_second(self.import_button)
        self.addWidget(self.empty)
        self.addWidget(self.area)

    def show_entries(self, entries: Mapping[str, NodeEntry]) -> None:
        """Show the current nodes of the inventory."""
        for name, entry in entries.items():
            if name in self.cards:
                self.cards[name].show_entry(entry)
            else:
                self.cards[name] = self._made(name, entry)
        self.cards = {name: self.cards[name] for name in entries}
        self._grid.show_cards(list(self.cards.values()))
        self.setCurrentIndex(1 if entries else 0)

    def show_sights(self, sights: Sequence[NodeSight]) -> None:
        """Show new states."""
        for sight in sights:
            card = self.cards.get(sight.name)
            if card is not None:
                card.show_sight(sight)

    def _made(self, name: str, entry: NodeEntry) -> NodeCard:
        card = NodeCard(self._theme, name, entry)
        card.run_asked.connect(self.run_asked)
        card.help_asked.connect(self.help_asked)
        card.clean_asked.connect(self.clean_asked)
        card.edit_asked.connect(self.edit_asked)
        card.remove_asked.connect(self.remove_asked)
        card.terminal_asked.connect(self.terminal_asked)
        return card


LEAST = 360
"""Minimum width of a card in pixels."""
MOST_COLUMNS = 6


class CardGrid(QWidget):
    """Grid that places cards line by line in columns of equal width."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._cards: tuple[QWidget, ...] = ()
        self._columns = 0
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(2 * GRID)

    def show_cards(self, cards: Sequence[QWidget]) -> None:
        """Show these cards in this order; removed ones are deleted."""
        for old in self._cards:
            if old not in cards:
                self._grid.removeWidget(old)
                old.hide()
                old.deleteLater()
        self._cards = tuple(cards)
        self._lay(max(1, self._columns))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        room = event.size().width() + 2 * GRID
        columns = max(1, min(MOST_COLUMNS, room // (LEAST + 2 * GRID)))
        if columns != self._columns:
            self._lay(columns)

    def _lay(self, columns: int) -> None:
        self._columns = columns
        lines = -(-len(self._cards) // columns)
        for at, card in enumerate(self._cards):
            self._grid.addWidget(card, at // columns, at % columns)
        for column in range(MOST_COLUMNS):
            self._grid.setColumnStretch(column, 1 if column < columns else 0)
        for line in range(self._grid.rowCount()):
            self._grid.setRowStretch(line, 0)
        self._grid.setRowStretch(lines, 1)


# Inventory node as a card.

_ELIDED = 280
"""Width in pixels of the text on a run's button."""


class NodeCard(Panel):
    """Card with everything known of one node, and its actions."""

    run_asked = Signal(str)
    """Emitted with a run's id."""
    help_asked = Signal(str)
    """Emitted with the name of a node to retry."""
    clean_asked = Signal(str)
    edit_asked = Signal(str)
    remove_asked = Signal(str)
    terminal_asked = Signal(str)

    def __init__(self, theme: Theme, name: str, entry: NodeEntry, parent: QWidget | None = None) -> None:
        super().__init__("", parent)
        self.name = name
        self._theme = theme
        self._entry = entry
        self._sight: NodeSight | None = None
        self._runs: tuple[RunHere, ...] = ()
        self.setAccessibleName(f"Node {name}")
        self._add_head(entry)
        self._add_trouble()
        self._machine = label("", role="secondary", wrap=True)
        self._machine.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        self.add(self._machine)
        self._charts = {title: UsageChart(theme, title, highest=100.0) for title in ("CPU", "Memory")}
        self._numbers = QWidget()
        side_by_side = QHBoxLayout(self._numbers)
        side_by_side.setContentsMargins(0, 0, 0, 0)
        side_by_side.setSpacing(2 * GRID)
        for chart in self._charts.values():
            side_by_side.addWidget(chart, 1)
        self.add(self._numbers)
        self._devices: list[DeviceRow] = []
        self._devices_room = _column(2 * GRID)
        self.add(_room(self._devices_room))
        self._runs_room = _column(2)
        self.add(_room(self._runs_room))
        self._add_orphans()
        self.add(QWidget(), 1)
        self.show_entry(entry)
        self.show_sight(NodeSight(name))

    @property
    def sight(self) -> NodeSight | None:
        """Return the state shown."""
        return self._sight

    def show_entry(self, entry: NodeEntry) -> None:
        """Show the inventory's entry."""
        self._entry = entry
        words = address_words(entry)
        self._address.setText(words)
        self._address.setToolTip(plain_tip(words))

    def show_sight(self, sight: NodeSight) -> None:
        """Show the current state; unchanged parts are not updated."""
        before, self._sight = self._sight, sight
        if before is None or (before.standing, before.why, before.fix) != (
            sight.standing,
            sight.why,
            sight.fix,
        ):
            self._show_standing(sight)
        if before is None or before.facts is not sight.facts:
            self._show_facts(sight)
        if sight.sample is not None and (before is None or before.sample is not sight.sample):
            for title, said in (
                ("CPU", cpu_words(sight.sample, sight.facts)),
                ("Memory", memory_words(sight.sample)),
            ):
                self._charts[title].add(said[0], said[1], exact=said[2])
            self._show_devices(sight)
        if before is None or before.runs != sight.runs:
            self._show_runs(sight)

    def _show_standing(self, sight: NodeSight) -> None:
        standing = sight.standing
        self._badge.set_look(LOOKS[standing])
        self._badge.setToolTip(plain_tip(sight.why))
        role = "warning" if LOOKS[standing].colour == "warn" else "error"
        self._why.set_text(with_fix(why_words(self.name, sight.why), sight.fix), role)
        self._why.setVisible(bool(sight.why))
        wanted = HELPS.get(standing)
        set_visible(self.help_button, self.menu_button, on=wanted is not None)
        if wanted is not None:
            self.help_button.setText(wanted.text)
            self.help_button.setToolTip(plain_tip(wanted.tip))
            self.help_button.setAccessibleName(f"{wanted.text.removesuffix(' …')}: {self.name}")
        is_live = standing is Standing.REACHED
        for widget in (self._numbers, self._devices_room.parentWidget(), self._runs_room.parentWidget()):
            if widget is not None:
                widget.setEnabled(is_live)

    def _show_facts(self, sight: NodeSight) -> None:
        known = sight.facts is not None
        self._machine.setVisible(known)
        self._numbers.setVisible(known)
        lack = ""
        if sight.facts is not None:
            self._machine.setText(machine_words(sight.facts))
            self._machine.setToolTip(plain_tip(machine_details(sight.facts)))
            lack = lacks(sight.facts, self._entry)
        self._lack.set_text(lack, "warning")
        self._lack.setVisible(bool(lack))
        at_fault = sight.facts is not None and bool(python_fault(sight.facts))
        set_visible(self.python_button, self.menu_button, on=at_fault)
        self._show_devices(sight)

    def _show_devices(self, sight: NodeSight) -> None:
        devices = sight.devices
        while len(self._devices) < len(devices):
            row = DeviceRow(self._theme, narrow=True)
            row.run_asked.connect(self.run_asked)
            self._devices_room.addWidget(row)
            self._devices.append(row)
        while len(self._devices) > len(devices):
            self._devices.pop().deleteLater()
        for row, device in zip(self._devices, devices, strict=True):
            row.show_device(device)

    def _show_runs(self, sight: NodeSight) -> None:
        runs = tuple(run for run in sight.runs if run.supervised)
        if runs != self._runs:
            self._runs = runs
            while (item := self._runs_room.takeAt(0)) is not None:
                old = item.widget()
                if old is not None:
                    old.deleteLater()
            for run in runs:
                self._runs_room.addWidget(self._run_button(run))
        orphans = sight.orphans
        self._orphans.setText(orphan_words(orphans) if orphans else "")
        self._orphans.setToolTip(plain_tip("\n".join(run_words(run) for run in orphans)))
        if not orphans:
            leave(self.clean_button, self.menu_button)
        self._left.setVisible(bool(orphans))

    def _run_button(self, run: RunHere) -> QPushButton:
        button = QPushButton()
        words = run_words(run)
        fitting = button.fontMetrics().elidedText(words, Qt.TextElideMode.ElideMiddle, _ELIDED)
        button.setText(control_text(fitting))
        button.setFlat(True)
        button.setAccessibleName(f"Open the run {run.run_id}")
        button.setToolTip(plain_tip(f"Open the run {run.run_id}"))
        button.clicked.connect(partial(self.run_asked.emit, run.run_id))
        return button

    def _add_head(self, entry: NodeEntry) -> None:
        name = ElidedLabel(self.name)
        name.setFont(font(Type.HEADING))
        name.setToolTip(plain_tip(self.name))
        self._badge = StateBadge(self._theme)
        self.menu_button = QToolButton()
        self.menu_button.setText("⋯")
        self.menu_button.setToolTip("Edit, remove, look again, open a terminal")
        self.menu_button.setAccessibleName(f"What can be done with {self.name}")
        self.menu_button.setProperty("role", "sign")
        menu = QMenu(self.menu_button)
        menu.addAction("Edit …").triggered.connect(lambda: self.edit_asked.emit(self.name))
        menu.addAction("Try again").triggered.connect(lambda: self.help_asked.emit(self.name))
        menu.addAction("Open a terminal").triggered.connect(lambda: self.terminal_asked.emit(self.name))
        menu.addAction("Remove …").triggered.connect(lambda: self.remove_asked.emit(self.name))
        self.menu_button.clicked.connect(
            lambda: menu.popup(self.menu_button.mapToGlobal(self.menu_button.rect().bottomLeft()))
        )
        self.menu = menu
        head = QHBoxLayout()
        head.setSpacing(GRID)
        head.addWidget(name, 1)
        head.addWidget(self._badge)
        head.addWidget(self.menu_button)
        self._layout.addLayout(head)
        self._address = ElidedLabel()
        self._address.setProperty("role", "secondary")
        self._address.setAccessibleDescription(address_words(entry))
        self.add(self._address)

    def _add_trouble(self) -> None:
        self._why, self._lack = WrappedText("error"), WrappedText("warning")
        for text in (self._why, self._lack):
            self.add(text)
        self.help_button = QPushButton()
        self.help_button.clicked.connect(lambda: self.help_asked.emit(self.name))
        self.python_button = QPushButton("Edit …")
        self.python_button.setToolTip("Change its Python in the node inventory")
        self.python_button.setAccessibleName(f"Edit the Python of {self.name}")
        self.python_button.clicked.connect(lambda: self.edit_asked.emit(self.name))
        row = QHBoxLayout()
        row.addWidget(self.help_button)
        row.addWidget(self.python_button)
        row.addStretch(1)
        self._layout.addLayout(row)

    def _add_orphans(self) -> None:
        self._orphans = label("", role="warning", wrap=True)
        self._orphans.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        self.clean_button = QPushButton("Clean …")
        self.clean_button.setToolTip("End what is left of dead runs; asks first")
        self.clean_button.setAccessibleName(f"Clean {self.name}")
        self.clean_button.clicked.connect(lambda: self.clean_asked.emit(self.name))
        self._left = QWidget()
        row = QHBoxLayout(self._left)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self._orphans, 1)
        row.addWidget(self.clean_button)
        self.add(self._left)


def _column(spacing: int) -> QVBoxLayout:
    column = QVBoxLayout()
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(spacing)
    return column


def _room(layout: QVBoxLayout) -> QWidget:
    room = QWidget()
    room.setLayout(layout)
    return room
