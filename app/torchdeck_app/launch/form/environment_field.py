"""Field for the Python of a run: typed, or chosen from what this machine and the run's nodes have."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import groupby
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QMessageBox, QWidget

from torchdeck.nodes.connector import Connector
from torchdeck.use_cases.environments import (
    FoundEnvironment,
    FoundEnvironments,
    find_environments,
    place_of,
    versions_of,
)
from torchdeck.use_cases.nodes.inventory import use_python
from torchdeck_app.bridge.operations import Operation, Operations
from torchdeck_app.launch.document.run_document import RunDocument
from torchdeck_app.launch.form.base_control import SmallButton
from torchdeck_app.launch.form.control_factory import PathControl
from torchdeck_app.launch.form.form_edits import resetting, setting
from torchdeck_app.launch.form.form_state import FieldState
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.dialogs import Choice, ask
from torchdeck_app.widgets.labels import control_text

INTERPRETER = ("run", "interpreter")
ENVIRONMENT = ("run", "environment")
UV = "uv"
_SEARCHING = "Searching this machine and the nodes of the run…"
_USED_TIP = "Ranks on {node} use this Python, as the node inventory says."
_OTHER_TIP = "Ranks on {node} use this Python from now on. It is saved in the node inventory."


class EnvironmentSearch(QObject):
    """Search for environments off the GUI thread; the last result is available at once."""

    changed = Signal()
    node_changed = Signal()
    """Emitted when a node has got another Python: plans may differ."""

    def __init__(
        self,
        document: RunDocument,
        operations: Operations,
        connector: Callable[[], Connector],
        parent: QObject | None = None,
    ) -> None:
        """Args:
        document: the run file.
        operations: runs the search.
        connector: connects to nodes without prompting.
        parent: Qt parent.
        """
        super().__init__(parent)
        self._document, self._operations, self._connector = document, operations, connector
        self._running: Operation[FoundEnvironments] | None = None
        self.found: FoundEnvironments | None = None
        self.why = ""
        """Why the last search failed; empty if it did not."""

    @property
    def is_running(self) -> bool:
        return self._running is not None

    @property
    def uses_uv(self) -> bool:
        """Whether the run file has uv make the environment."""
        run = {} if self._document.newest is None else self._document.newest.written.get("run", {})
        return isinstance(run, dict) and run.get(ENVIRONMENT[1]) == UV

    def start(self) -> None:
        """Search, unless a search is running."""
        if self._running is not None:
            return
        newest = self._document.newest
        config = None if newest is None or newest.loaded is None else newest.loaded.config
        named = None if config is None else config.run.working_dir
        folder = self._document.folder if named is None else Path(named)
        self._running = self._operations.run(
            "looking for Python environments",
            lambda _progress, _cancel: find_environments(folder, config, self._connector()),
            done=self._take,
            failed=self._fail,
        )
        self._running.cancelled.connect(self._over)

    def use_on_node(self, found: FoundEnvironment) -> None:
        """Make `found` the Python of its node, for all runs, and search again."""
        home = self._connector().home
        self._operations.run(
            f"changing the Python of {found.node}",
            lambda _progress, _cancel: use_python(home, found.node, found.executable),
            done=lambda _edited: self._node_changed(),
            failed=self._fail,
        )

    def _node_changed(self) -> None:
        self.node_changed.emit()
        self.start()

    def _take(self, found: FoundEnvironments) -> None:
        self.found, self.why = found, ""
        self._over()

    def _fail(self, error: Exception) -> None:
        self.why = str(error)
        self._over()

    def _over(self) -> None:
        self._running = None
        self.changed.emit()


class InterpreterControl(PathControl):
    """Path with a menu of environments."""

    def __init__(
        self,
        theme: Theme,
        state: FieldState,
        folder: Callable[[], Path],
        search: EnvironmentSearch,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(theme, state, folder, parent)
        self._search = search
        self.dialog: QMessageBox | None = None
        self.menu = QMenu(self)
        self.menu.setToolTipsVisible(True)
        self.choose = SmallButton(theme, "down", "Choose an environment")
        self.choose.clicked.connect(self._open_menu)
        layout = self.layout()
        assert layout is not None  # noqa: S101 - made by PathControl
        layout.addWidget(self.choose)
        search.changed.connect(self._fill_open_menu)

    def set_writable(self, *, writable: bool) -> None:
        super().set_writable(writable=writable)
        self.choose.setEnabled(writable)

    def fill_menu(self) -> None:
        """Fill the menu with the last result of the search."""
        self.menu.clear()
        found = self._search.found
        if found is not None:
            self._add_uv(found)
            self._add_heading("This machine")
            for each in found.here:
                self._add_here(each)
            for node, environments in groupby(found.on_nodes, lambda each: each.node):
                self._add_heading(f"Node {node}")
                for each in environments:
                    self._add_on_node(each)
        for text in (() if found is None else found.problems) + (
            (self._search.why,) if self._search.why else ()
        ):
            self.menu.addAction(control_text(text)).setEnabled(False)
        if self._search.is_running:
            self.menu.addAction(_SEARCHING).setEnabled(False)

    def _add_heading(self, text: str) -> None:
        self.menu.addSeparator()
        self.menu.addAction(control_text(text)).setEnabled(False)  # styles leave out the text of sections

    def _add_uv(self, found: FoundEnvironments) -> None:
        uses_uv = self._search.uses_uv
        if not found.uv_source and not uses_uv:
            return
        source = found.uv_source or "uv.lock, which does not exist"
        action = self._add(f"uv: from {source}\tmade on each node", is_on=uses_uv)
        action.triggered.connect(partial(self._use_uv, is_on=not uses_uv))

    def _add_here(self, found: FoundEnvironment) -> None:
        is_default = found.is_used
        is_on = not self.state.own if is_default else self.state.value == found.executable
        place = "Torchdeck's own Python" if is_default else place_of(found)
        action = self._add(f"{place}\t{versions_of(found)}", is_on=is_on)
        action.setToolTip(control_text(found.executable))
        action.triggered.connect(self.ask_reset if is_default else partial(self.ask_value, found.executable))

    def _add_on_node(self, found: FoundEnvironment) -> None:
        action = self._add(f"{place_of(found)}\t{versions_of(found)}", is_on=found.is_used)
        tip = _USED_TIP if found.is_used else _OTHER_TIP
        action.setToolTip(control_text(f"{found.executable}\n{tip.format(node=found.node)}"))
        if not found.is_used:
            action.triggered.connect(lambda: self._ask_node(found))

    def _ask_node(self, found: FoundEnvironment) -> None:
        """Ask before a change that holds for other runs, too."""
        roles = QMessageBox.ButtonRole
        self.dialog = ask(
            self,
            f"Use {place_of(found)} on {found.node}?",
            f"{versions_of(found)}. Every run on {found.node} uses it from now on: it is saved in the node "
            "inventory, in place of its virtual or conda environment.",
            (
                Choice("&Use", roles.AcceptRole, lambda: self._search.use_on_node(found)),
                Choice("&Cancel", roles.RejectRole, lambda: None),
            ),
        )

    def _add(self, text: str, *, is_on: bool) -> QAction:
        action = self.menu.addAction(control_text(text))
        action.setCheckable(True)
        action.setChecked(is_on)
        return action

    def _use_uv(self, *, is_on: bool) -> None:
        self.ask(setting(ENVIRONMENT, UV) if is_on else resetting(ENVIRONMENT))

    def _open_menu(self) -> None:
        self._search.start()
        self.fill_menu()
        self.menu.popup(self.choose.mapToGlobal(self.choose.rect().bottomLeft()))

    def _fill_open_menu(self) -> None:
        if self.menu.isVisible():
            self.fill_menu()
