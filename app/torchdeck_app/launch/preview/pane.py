"""The right side of Launch: what the run will do, up to date with what is edited."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QStackedWidget, QTabWidget, QVBoxLayout, QWidget

from torchdeck.plan.preview import Preview
from torchdeck_app.launch.preview.commands.view import CommandsView
from torchdeck_app.launch.preview.data.view import DataView
from torchdeck_app.launch.preview.memory.view import MemoryView
from torchdeck_app.launch.preview.messages import reason_of
from torchdeck_app.launch.preview.parameters.view import ParametersView
from torchdeck_app.launch.preview.placement.run_nodes import RunNodes
from torchdeck_app.launch.preview.placement.view import PlacementView
from torchdeck_app.launch.preview.service import PreviewService
from torchdeck_app.launch.preview.state import PreviewState
from torchdeck_app.launch.preview.strip import HeadlineStrip, MessageBar
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.empty_state import EmptyState
from torchdeck_app.widgets.panel import GRID


class PreviewPane(QWidget):
    """Tabs under a strip that says whether it fits, whether it is balanced, and what it costs."""

    change_asked = Signal(object)  # a dict of Qt's has no tuples for keys
    """A dict: keys of run.toml, dotted or as paths, to their new values: one step to undo."""
    trust_asked = Signal(object)
    """What, a Held, that the user may be asked to trust."""

    def __init__(
        self,
        theme: Theme,
        service: PreviewService,
        parent: QWidget | None = None,
        *,
        run_nodes: RunNodes | None = None,
    ) -> None:
        """A pane for what `service` previews; `run_nodes` is the node book against the document."""
        super().__init__(parent)
        self.setAccessibleName("Preview")
        self._service = service
        self._shown: Preview | None = None
        self._why = ""
        self._behind: set[QWidget] = set()
        operations = service.operations
        self.placement = PlacementView(theme, operations, run_nodes=run_nodes)
        self.data = DataView(theme, operations)
        self.memory = MemoryView(theme, operations)
        self.parameters = ParametersView(theme, operations)
        self.commands = CommandsView(theme, operations)
        self.tabs = self._tabs()
        for changing in (self.placement, self.data, self.memory):
            changing.change_asked.connect(self.change_asked.emit)
        self._empty = EmptyState(theme, "launch", "Preview", "")
        self.strip = HeadlineStrip(theme)
        self.bar = MessageBar(theme)
        self.bar.pressed.connect(self._act)
        self._stack = QStackedWidget()
        self._stack.addWidget(self._empty)
        self._stack.addWidget(self.tabs)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(GRID, GRID, GRID, GRID)
        layout.setSpacing(GRID)
        layout.addWidget(self.strip)
        layout.addWidget(self.bar)
        layout.addWidget(self._stack, 1)
        self.tabs.currentChanged.connect(self._catch_up)
        service.updated.connect(self.show_state)
        self.show_state(service.state)

    def _tabs(self) -> QTabWidget:
        tabs = QTabWidget()
        tabs.setDocumentMode(True)
        for name, view in (
            ("&Placement", self.placement),
            ("&Data", self.data),
            ("&Memory", self.memory),
            ("P&arameters", self.parameters),
            ("C&ommands", self.commands),
        ):
            tabs.addTab(view, name)
        return tabs

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 - Qt's name
        super().showEvent(event)
        self._service.watch(watching=True)

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802 - Qt's name
        super().hideEvent(event)
        self._service.watch(watching=False)

    def show_state(self, state: PreviewState) -> None:
        """Show what the service says."""
        preview = state.preview
        if preview is None:
            self._empty.set_sentence(reason_of(state))
        self._stack.setCurrentWidget(self._empty if preview is None else self.tabs)
        self.strip.show_state(state)
        self.bar.show_state(state)
        self.placement.show_state(state)
        if preview is not self._shown or state.error != self._why:
            self._shown, self._why = preview, state.error
            self._behind = {self.data, self.memory, self.parameters, self.commands}
        self._catch_up()

    def show_commands(self) -> None:
        """Bring the commands into sight, up to date."""
        self.tabs.setCurrentWidget(self.commands)
        self._catch_up()

    def _catch_up(self) -> None:
        """Bring the tab in sight up to date; the others follow when they are looked at."""
        view = self.tabs.currentWidget()
        if isinstance(view, DataView | MemoryView | ParametersView | CommandsView) and view in self._behind:
            self._behind.remove(view)
            view.show_preview(self._shown, self._why)

    def _act(self, action: str) -> None:
        """Do what the button of a message says."""
        if action == "trust" and self._service.state.held is not None:
            self.trust_asked.emit(self._service.state.held)
        elif action == "cancel":
            self._service.cancel_tracing()
        elif action == "again":
            self._service.refresh()
