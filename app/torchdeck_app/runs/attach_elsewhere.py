"""Following a run started on another machine: chosen in a dialog, attached in a worker."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QDialog, QWidget

from torchdeck.nodes.inventory.schema import NodeInventory
from torchdeck.use_cases.attach import Attached, attach_elsewhere
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.bridge.operations import Cancel, Operation, Operations
from torchdeck_app.runs.attaching.dialog import AttachDialog
from torchdeck_app.runs.commands.commands import RunCommands


class RunsElsewhere(QWidget):
    """Hidden widget whose parent is the dialog's parent.

    Args:
        operations: runs blocking work.
        logins: connects to nodes.
        commands: reaps the controllers that are started.
        parent: the page.
    """

    attached = Signal(str)
    """Emitted with the id of a run that is now here."""
    failed = Signal(str)
    """Emitted with the reason why the dialog cannot open, or with what an attached run still lacks."""

    def __init__(
        self, operations: Operations, logins: Logins, commands: RunCommands, parent: QWidget
    ) -> None:
        super().__init__(parent)
        self.hide()
        self._operations, self._logins, self._commands = operations, logins, commands
        self._dialog: AttachDialog | None = None

    @property
    def dialog(self) -> AttachDialog | None:
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

    def _open(self, node_inventory: NodeInventory) -> None:
        if self._dialog is not None:
            return
        if not node_inventory.nodes:
            self.failed.emit("There are no nodes yet: add the run's in Nodes")
            return
        self._dialog = AttachDialog(tuple(node_inventory.nodes), self.window())
        self._dialog.attach_asked.connect(self._attach)
        self._dialog.finished.connect(self._closed)
        self._dialog.open()

    def _closed(self) -> None:
        self._dialog = None

    def _attach(self, node: str, asked: str) -> None:
        dialog = self._dialog
        if dialog is None:
            return
        self._logins.ask_again()

        def call(progress: Callable[[str], None], cancel: Cancel) -> Attached:
            ui = self._commands.ui(progress, cancel)
            return attach_elsewhere(node, asked, self._logins.home, ui, until_followed=True)

        operation: Operation[Attached] = self._operations.run(
            f"attaching to a run on {node}",
            call,
            done=lambda found: self._done(dialog, found),
            failed=lambda error: self._failed(dialog, error),
        )
        operation.progressed.connect(lambda what: self._progressed(dialog, what))
        operation.cancelled.connect(lambda: self._cancelled(dialog))
        dialog.rejected.connect(operation.cancel)

    def _progressed(self, dialog: AttachDialog, what: str) -> None:
        if dialog is self._dialog:
            dialog.show_progress(what)

    def _cancelled(self, dialog: AttachDialog) -> None:
        """Handle a cancelled dialog; a run already here stays, with the controller started for it."""
        self._failed(dialog, InterruptedError("it was cancelled"))
        self._commands.runs_touched.emit()

    def _failed(self, dialog: AttachDialog, error: Exception) -> None:
        self._commands.look_after()
        if dialog is self._dialog:
            dialog.show_error(str(error))

    def _done(self, dialog: AttachDialog, found: Attached) -> None:
        self._commands.look_after()
        if dialog is self._dialog:
            dialog.done(QDialog.DialogCode.Accepted)
        if found.unreached:
            self.failed.emit("\n".join(f"Not here yet: {why}" for why in found.unreached.values()))
        self.attached.emit(found.layout.root.name)
