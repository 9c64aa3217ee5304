"""Base of what brings in a run that was not started here: chosen in a dialog, found in a worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from torchdeck.nodes.inventory.schema import NodeInventory
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.bridge.operations import Operation, Operations
from torchdeck_app.bridge.worker_ui import WorkerUi
from torchdeck_app.runs.run_commands import RunCommands
from torchdeck_app.theme.fonts import Type
from torchdeck_app.widgets.inputs import NamedBox
from torchdeck_app.widgets.panel import GRID, label
from torchdeck_app.widgets.tab_order import step_focus


class RunDialog(QDialog):
    """Window-modal dialog that connects to nothing itself. Cancel aborts the operation and closes the
    dialog.
    """

    asked = Signal()
    """Emitted when the fields are to be used."""

    def __init__(
        self, title: str, about: str, verb: str, nodes: Sequence[str], parent: QWidget | None
    ) -> None:
        """Create the dialog with one field, the node.

        Args:
            title: of the window.
            about: one paragraph above the fields.
            verb: text of the button.
            nodes: choices of the field.
            parent: window that it belongs to.
        """
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(title)
        self.setMinimumWidth(60 * GRID)
        self.node = NamedBox()
        self.node.addItems(list(nodes))
        self.node.setAccessibleName("Node")
        self.form = QFormLayout()
        self.form.setHorizontalSpacing(2 * GRID)
        self.form.setVerticalSpacing(GRID)
        self.form.addRow("&Node", self.node)
        self._told = label(kind=Type.BODY, role="secondary", wrap=True)
        self._told.setTextFormat(Qt.TextFormat.PlainText)
        self._told.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.start_button = buttons.addButton(verb, QDialogButtonBox.ButtonRole.ActionRole)
        self.start_button.setProperty("role", "primary")
        self.start_button.setDefault(True)
        self.start_button.clicked.connect(self.asked)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(2 * GRID)
        column.addWidget(label(about, wrap=True))
        column.addLayout(self.form)
        column.addWidget(self._told)
        column.addWidget(buttons)

    def focusNextPrevChild(self, forward: bool) -> bool:  # noqa: FBT001, N802 - Qt's name
        """Move the focus as the dialog is read: the fields of subclasses are created last."""
        return step_focus((self,), forward=forward, around=True) or super().focusNextPrevChild(forward)

    @property
    def message(self) -> str:
        """Return the progress, or why the run is not here."""
        return self._told.text()

    def show_progress(self, what: str) -> None:
        """Show the progress."""
        self._tell(f"{what[:1].upper()}{what[1:]} …", "secondary")
        self.enable(busy=True)

    def show_error(self, why: str) -> None:
        """Show why the operation failed."""
        self._tell(f"✕ {why[:1].upper()}{why[1:]}", "error")
        self.enable(busy=False)

    def enable(self, *, busy: bool) -> None:
        """Enable the fields that can be used, during the operation none."""
        raise NotImplementedError

    def _tell(self, text: str, role: str) -> None:
        self._told.setText(text)
        if self._told.property("role") != role:
            self._told.setProperty("role", role)
            self._told.style().polish(self._told)


D = TypeVar("D", bound=RunDialog)


class FoundRun(NamedTuple):
    """Outcome of the operation."""

    run_id: str
    lacks: str = ""
    """Things that the run still lacks here, one sentence per line."""


class AskedRun(QWidget, Generic[D]):
    """Hidden widget whose parent is the dialog's parent.

    Args:
        operations: runs blocking work.
        logins: connects to nodes.
        commands: reaps the controllers that are started.
        parent: the page.
    """

    found = Signal(str)
    """Emitted with the id of a run that is now here."""
    failed = Signal(str)
    """Emitted with the reason why the dialog cannot open, or with what a run here still lacks."""

    def __init__(
        self, operations: Operations, logins: Logins, commands: RunCommands, parent: QWidget
    ) -> None:
        super().__init__(parent)
        self.hide()
        self._operations, self._logins, self._commands = operations, logins, commands
        self._dialog: D | None = None

    @property
    def dialog(self) -> D | None:
        """Return the dialog while it is open."""
        return self._dialog

    def ask(self) -> None:
        """Open the dialog once the inventory is read."""
        self._operations.run(
            "reading the node inventory",
            lambda _progress, _cancel: self._logins.quiet.node_inventory(),
            done=self._open,
            failed=lambda error: self.failed.emit(f"The node inventory cannot be read: {error}"),
        )

    def make_dialog(self, nodes: Sequence[str]) -> D | None:
        """Return the dialog; None, with `failed` emitted, if it has nothing to offer."""
        raise NotImplementedError

    def begin(self, dialog: D) -> None:
        """Run the operation that the fields of the dialog ask for."""
        raise NotImplementedError

    def run(self, dialog: D, name: str, call: Callable[[WorkerUi], FoundRun]) -> None:
        """Run `call` in a worker and show its progress in the dialog, which its success closes."""
        self._logins.ask_again()
        operation: Operation[FoundRun] = self._operations.run(
            name,
            lambda progress, cancel: call(self._commands.ui(progress, cancel)),
            done=lambda found: self._done(dialog, found),
            failed=lambda error: self._failed(dialog, error),
        )
        operation.progressed.connect(lambda what: self._progressed(dialog, what))
        operation.cancelled.connect(lambda: self._cancelled(dialog))
        dialog.rejected.connect(operation.cancel)

    def _open(self, node_inventory: NodeInventory) -> None:
        if self._dialog is not None:
            return
        dialog = self.make_dialog(tuple(node_inventory.nodes))
        if dialog is not None:
            self._dialog = dialog
            dialog.asked.connect(self._begin)
            dialog.finished.connect(self._closed)
            dialog.open()

    def _begin(self) -> None:
        if self._dialog is not None:
            self.begin(self._dialog)

    def _closed(self) -> None:
        self._dialog = None

    def _progressed(self, dialog: D, what: str) -> None:
        if dialog is self._dialog:
            dialog.show_progress(what)

    def _cancelled(self, dialog: D) -> None:
        """Handle a cancelled dialog; a run already here stays, with the controller started for it."""
        self._failed(dialog, InterruptedError("it was cancelled"))
        self._commands.runs_touched.emit()

    def _failed(self, dialog: D, error: Exception) -> None:
        self._commands.look_after()
        if dialog is self._dialog:
            dialog.show_error(str(error))

    def _done(self, dialog: D, found: FoundRun) -> None:
        self._commands.look_after()
        self._commands.runs_touched.emit()
        if dialog is self._dialog:
            dialog.done(QDialog.DialogCode.Accepted)
        if found.lacks:
            self.failed.emit(found.lacks)
        self.found.emit(found.run_id)
