"""Nodes page."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QMessageBox,
    QPushButton,
    QScrollArea,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from torchdeck.nodes.activity import Activity, ActivityWatch
from torchdeck.nodes.gpus.gpu_now import RunHold
from torchdeck.nodes.interpreter import probe_interpreter
from torchdeck.nodes.inventory.schema import NodeInventory
from torchdeck.nodes.probe.facts import RunHere
from torchdeck.nodes.this_machine import probe_software
from torchdeck.use_cases.nodes.clean import Ended, end_orphans
from torchdeck.use_cases.nodes.gpus import holds_of
from torchdeck.use_cases.nodes.inventory import Removed
from torchdeck_app.bridge.background_loop import Poller
from torchdeck_app.bridge.logins import Logins, make_logins
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.bridge.run_list import RunListPoller
from torchdeck_app.nodes.card_words import HELPS, cleaning_words, orphan_words, summary
from torchdeck_app.nodes.connection_matrix import MatrixView
from torchdeck_app.nodes.gpus.gpus_view import GpusView
from torchdeck_app.nodes.gpus.process_ending import ProcessEnding
from torchdeck_app.nodes.import_dialog import ImportDialog
from torchdeck_app.nodes.live_nodes import LiveNodes
from torchdeck_app.nodes.machine_card import MachineCard
from torchdeck_app.nodes.node_cards import NodeGrid
from torchdeck_app.nodes.node_dialog import NodeDialog
from torchdeck_app.nodes.node_removal import Removal
from torchdeck_app.nodes.node_sight import NodeSight
from torchdeck_app.nodes.node_terminals import NodeTerminals
from torchdeck_app.nodes.undo_bar import UndoBar
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.dialogs import Choice, ask
from torchdeck_app.widgets.help import ErrorLine, page_of
from torchdeck_app.widgets.labels import ElidedLabel, plain_tip
from torchdeck_app.widgets.page import Page
from torchdeck_app.widgets.panel import GRID

INTERVAL = 1.0
"""Seconds between two polls of the machine."""
NODES, GPUS, THIS_MACHINE, CONNECTIONS = range(4)
"""Indices of the tabs."""


class NodesPage(Page):
    """Page with all nodes and this machine, live while shown."""

    run_asked = Signal(str)
    """Emitted with the id of a run to open."""
    stop_asked = Signal(str)
    """Emitted with the id of an active run to stop after its step."""

    def __init__(
        self,
        theme: Theme,
        operations: Operations,
        home: Path,
        parent: QWidget | None = None,
        *,
        logins: Logins | None = None,
        run_list: RunListPoller | None = None,
    ) -> None:
        """Args:
        theme: theme of the window.
        operations: runs blocking work.
        home: TORCHDECK_HOME.
        parent: Qt parent.
        logins: connects to nodes; without it the user is never prompted.
        run_list: knows when runs that hold GPUs are expected to end.
        """
        super().__init__(parent)
        self._theme, self._operations = theme, operations
        self._logins = logins or make_logins(home)
        self._node_inventory = NodeInventory()
        self._has_chosen = False
        self.card = MachineCard(theme)
        self.live = LiveNodes(self._logins, self)
        self.board = NodeGrid(theme)
        self.matrix = MatrixView(theme, operations, self._logins)
        self._run_list = run_list
        self.gpus = GpusView(theme, self._holds)
        self.bar = UndoBar()
        self.cleaning = Cleaning(self, operations, self._logins, self.bar.say)
        self.removal = Removal(
            self,
            operations,
            self._logins,
            removed=self._offer_undo,
            changed=self.live.look_again,
            failed=self.bar.say,
        )
        self.ending = self._make_ending()
        self.terminals = NodeTerminals(operations, home, self.bar.say)
        self._actions = self._make_actions()
        self._lay_out()
        self._connect()
        watch = ActivityWatch(home)
        self._poller: Poller[Activity] = Poller("this machine", watch.look, INTERVAL, self)
        self._poller.changed.connect(self._show)
        self._poller.failed.connect(self._say)
        operations.run(
            "looking for Python and torch",
            lambda _progress, _cancel: probe_interpreter(),
            done=self.card.show_interpreter,
        )
        operations.run(
            "reading system facts", lambda _progress, _cancel: probe_software(), done=self.card.show_software
        )

    def actions_offered(self) -> Sequence[QAction]:
        return self._actions

    def entered(self) -> None:
        self._poller.start()
        self.live.start()

    def left(self) -> None:
        self._poller.stop()
        self.live.stop()

    def closing(self) -> None:
        self._poller.stop(1.0)
        self.live.stop(0.5)
        self.matrix.stop()

    def add_node(self) -> NodeDialog:
        """Open the dialog that adds a node."""
        return self._open_dialog("")

    def edit_node(self, name: str) -> NodeDialog:
        """Open the dialog that changes a node."""
        return self._open_dialog(name)

    def import_nodes(self) -> ImportDialog:
        """Open the dialog that imports hosts of the SSH config as nodes."""
        dialog = ImportDialog(self._theme, self._operations, self._logins, self._node_inventory.nodes, self)
        dialog.imported.connect(self._imported)
        dialog.add_asked.connect(self.add_node)
        dialog.open()
        return dialog

    def _open_dialog(self, name: str) -> NodeDialog:
        dialog = NodeDialog(self._theme, self._operations, self._logins, self._node_inventory, name, self)
        dialog.saved.connect(lambda _name: self.live.look_again())
        dialog.finished.connect(lambda _result: self.live.retry_waiting())
        dialog.open()
        return dialog

    def _make_ending(self) -> ProcessEnding:
        return ProcessEnding(
            self,
            self._operations,
            self._logins,
            reported=self.bar.say,
            run_asked=self.run_asked.emit,
            stop_asked=self.stop_asked.emit,
            may_stop=lambda run_id: run_id in self._holds(),
        )

    def _make_actions(self) -> tuple[QAction, ...]:
        made = []
        for text, tip, call in (
            ("Add a node …", "Add a node to the node inventory", self.add_node),
            ("Import nodes …", "Import the hosts of ~/.ssh/config as nodes", self.import_nodes),
        ):
            action = QAction(text, self)
            action.setToolTip(tip)
            action.triggered.connect(lambda _checked=False, call=call: call())
            made.append(action)
        return tuple(made)

    def _lay_out(self) -> None:
        self._summary = ElidedLabel()
        head = QHBoxLayout()
        head.setContentsMargins(2 * GRID, GRID, 2 * GRID, 0)
        head.setSpacing(GRID)
        head.addWidget(self._summary, 1)
        self.buttons = []
        for action in self._actions:
            button = QPushButton(action.text())
            button.setToolTip(action.toolTip())
            button.clicked.connect(action.trigger)
            head.addWidget(button)
            self.buttons.append(button)
        self._problem = ErrorLine()
        self._problem.setContentsMargins(2 * GRID, GRID, 2 * GRID, 0)
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.addTab(self.board, "Nodes")
        self.tabs.addTab(self.gpus, "GPUs")
        self.tabs.addTab(_scrolled(self.card), "This machine")
        self.tabs.addTab(self.matrix, "Connections")
        self.tabs.setCurrentIndex(THIS_MACHINE)
        self.tabs.tabBar().tabBarClicked.connect(self._choose)
        self.tabs.tabBar().setAccessibleName("Nodes")
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(4)
        whole.addLayout(head)
        whole.addWidget(self._problem)
        whole.addWidget(self.tabs, 1)
        whole.addWidget(self.bar)

    def _connect(self) -> None:
        self.card.run_asked.connect(self.run_asked)
        self.live.inventory_changed.connect(self._show_inventory)
        self.live.inventory_failed.connect(self._say_inventory)
        self.live.seen.connect(self._show_sights)
        self.live.reported.connect(self.gpus.show_nodes)
        self.gpus.run_asked.connect(self.run_asked)
        self.gpus.end_asked.connect(self.ending.ask)
        self.gpus.add_asked.connect(self.add_node)
        self.matrix.over.connect(self.live.retry_waiting)
        self.board.add_asked.connect(self.add_node)
        self.board.import_asked.connect(self.import_nodes)
        self.board.run_asked.connect(self.run_asked)
        self.board.help_asked.connect(self._help)
        self.board.clean_asked.connect(self._clean)
        self.board.edit_asked.connect(self.edit_node)
        self.board.remove_asked.connect(self.removal.ask)
        self.board.terminal_asked.connect(self.terminals.open)

    def _choose(self, _index: int) -> None:
        self._has_chosen = True

    def _show_inventory(self, node_inventory: NodeInventory) -> None:
        self._problem.say("")
        self._node_inventory = node_inventory
        self.board.show_entries(node_inventory.nodes)
        self.matrix.show_nodes(node_inventory)
        self.gpus.show_names(list(node_inventory.nodes))
        if node_inventory.nodes and not self._has_chosen:
            self._has_chosen = True
            self.tabs.setCurrentIndex(NODES)
        self._summarise()

    def _show_sights(self, sights: Sequence[NodeSight]) -> None:
        self.board.show_sights(sights)
        self._summarise()

    def _summarise(self) -> None:
        seen = [card.sight.standing for card in self.board.cards.values() if card.sight is not None]
        text = summary(seen)
        if text != self._summary.text():
            self._summary.setText(text)
            self._summary.setToolTip(plain_tip(text))

    def _help(self, name: str) -> None:
        sight = self.live.sights.get(name)
        wanted = None if sight is None else HELPS.get(sight.standing)
        if wanted is not None and wanted.edits:
            self.edit_node(name)
            return
        self.live.retry(name, asking=wanted is not None and wanted.asks)

    def _clean(self, name: str) -> None:
        sight = self.live.sights.get(name)
        if sight is not None and sight.orphans:
            self.cleaning.ask(name, sight.orphans)

    def _offer_undo(self, removed: Removed) -> None:
        self.bar.say(f"Removed {', '.join(removed.names)}", lambda: self.removal.undo(removed))

    def _imported(self, names: Sequence[str]) -> None:
        self.live.look_again()
        self.bar.say(f"Imported {', '.join(names)}")

    def _say_inventory(self, error: Exception) -> None:
        self._problem.say(f"The node inventory cannot be used: {error}", page_of(error))

    def _show(self, now: Activity) -> None:
        self.card.show_problem("")
        self.card.show_activity(now)
        self.gpus.show_here(now.gpus)

    def _holds(self) -> Mapping[str, RunHold]:
        return {} if self._run_list is None else holds_of(self._run_list.seen.entries, time.time())

    def _say(self, error: Exception) -> None:
        self.card.show_problem(f"This machine cannot be probed: {error}")


def _scrolled(widget: QWidget) -> QScrollArea:
    inside = QWidget()
    column = QVBoxLayout(inside)
    column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
    column.addWidget(widget, 1)
    scroll = QScrollArea()
    scroll.setAccessibleName("This machine")
    scroll.setFrameShape(QFrame.Shape.NoFrame)
    scroll.setProperty("role", "scrolled")
    scroll.setWidgetResizable(True)
    scroll.setWidget(inside)
    return scroll


# Orphan cleanup for dead runs on a node: confirmed first, then done in a worker.


class Cleaning:
    """Orphan cleanup for one or several nodes at a time.

    Args:
        owner: widget over which the question appears.
        operations: runs the cleanup.
        logins: connects to nodes.
        told: called with a sentence about the result.
    """

    def __init__(
        self, owner: QWidget, operations: Operations, logins: Logins, told: Callable[[str], None]
    ) -> None:
        self._owner, self._operations, self._logins, self._told = owner, operations, logins, told
        self.dialog: QMessageBox | None = None
        """The question that was asked last."""

    def ask(self, name: str, orphans: tuple[RunHere, ...]) -> None:
        """Ask whether to kill these processes."""
        roles = QMessageBox.ButtonRole
        self.dialog = ask(
            self._owner,
            f"{orphan_words(orphans)} on {name}. End them?",
            cleaning_words(name, orphans),
            (
                Choice("End them", roles.DestructiveRole, lambda: self._clean(name, orphans)),
                Choice("Cancel", roles.RejectRole, lambda: None),
            ),
            default=1,
        )

    def _clean(self, name: str, orphans: tuple[RunHere, ...]) -> None:
        runs = {name: [run.run_id for run in orphans]}
        self._operations.run(
            f"cleaning {name}",
            lambda _progress, _cancel: end_orphans(runs, self._logins.asking),
            done=lambda ended: self._told("; ".join(map(outcome, ended))),
            failed=lambda error: self._told(f"{name} was not cleaned: {error}"),
        )


def outcome(found: Ended) -> str:
    """Return the result of a cleanup as a sentence."""
    if found.error:
        return f"{found.node} was not cleaned: {found.error}"
    ended = sum(found.ended.values())
    text = f"{found.node}: {ended} process{'es' * (ended != 1)} ended"
    if found.kept:
        text += f"; {', '.join(found.kept)} is supervised again and was not touched"
    if found.left:
        text += f"; {found.left} do not end: check them there, they may be waiting for a disk"
    return text
