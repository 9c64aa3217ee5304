"""Following a run started on another machine: chosen in a dialog, attached in a worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLabel,
    QLineEdit,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from torchdeck.nodes.inventory.schema import NodeInventory
from torchdeck.use_cases.attach import Attached, attach_elsewhere
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.bridge.operations import Cancel, Operation, Operations
from torchdeck_app.runs.run_commands import RunCommands
from torchdeck_app.theme.fonts import Type
from torchdeck_app.widgets.panel import GRID, label


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


LATEST = "latest"
_ABOUT = (
    "A run that was started from another machine can be shown, followed, stopped and pulled from "
    "here, through any of its nodes."
)


class AttachDialog(QDialog):
    """Window-modal dialog that connects to nothing itself. Cancel aborts the operation and closes the
    dialog.
    """

    attach_asked = Signal(str, str)
    """Emitted with a node of the inventory and the run: its id, an id prefix, its name, or `latest`."""

    def __init__(self, nodes: Sequence[str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Attach to a run on a node")
        self.setMinimumWidth(60 * GRID)
        self.node = QComboBox()
        self.node.addItems(list(nodes))
        self.node.setAccessibleName("Node")
        self.node.setToolTip("Any node of the run that is in the node inventory")
        self.run = QLineEdit(LATEST)
        self.run.setAccessibleName("Run")
        self.run.setToolTip("Run id or its beginning, name, or latest")
        self._told = label(kind=Type.BODY, role="secondary", wrap=True)
        self._told.setTextFormat(Qt.TextFormat.PlainText)
        self._told.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        self._buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.attach_button = self._buttons.addButton("&Attach", QDialogButtonBox.ButtonRole.ActionRole)
        self.attach_button.setProperty("role", "primary")
        self.attach_button.setDefault(True)
        self.attach_button.clicked.connect(self._ask)
        self._buttons.rejected.connect(self.reject)
        self._lay_out(label(_ABOUT, wrap=True))

    @property
    def told(self) -> str:
        """Return the progress, or why the run is not here."""
        return self._told.text()

    def show_progress(self, what: str) -> None:
        """Show the progress."""
        self._tell(f"{what[:1].upper()}{what[1:]} …", "secondary", busy=True)

    def show_error(self, why: str) -> None:
        """Show why attaching failed."""
        self._tell(f"✕ {why[:1].upper()}{why[1:]}", "error", busy=False)

    def _lay_out(self, about: QLabel) -> None:
        form = QFormLayout()
        form.setHorizontalSpacing(2 * GRID)
        form.setVerticalSpacing(GRID)
        form.addRow("&Node", self.node)
        form.addRow("&Run", self.run)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(2 * GRID)
        column.addWidget(about)
        column.addLayout(form)
        column.addWidget(self._told)
        column.addWidget(self._buttons)

    def _ask(self) -> None:
        self.show_progress(f"asking {self.node.currentText()} for its runs")
        self.attach_asked.emit(self.node.currentText(), self.run.text().strip() or LATEST)

    def _tell(self, text: str, role: str, *, busy: bool) -> None:
        self._told.setText(text)
        if self._told.property("role") != role:
            self._told.setProperty("role", role)
            self._told.style().polish(self._told)
        for control in (self.node, self.run, self.attach_button):
            control.setEnabled(not busy)
