"""Watching a training that Torchdeck did not start: chosen in a dialog, begun in a worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from torchdeck.nodes.inventory.schema import NodeInventory
from torchdeck.use_cases.elsewhere.watch import Watched, watch_training
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.bridge.operations import Cancel, Operation, Operations
from torchdeck_app.runs.run_commands import RunCommands
from torchdeck_app.theme.fonts import Type
from torchdeck_app.widgets.panel import GRID, label

HERE = "This machine"
_ABOUT = (
    "Shows a training that was started without Torchdeck, with its metrics, checkpoints and log. "
    "It is only read: nothing is written to its folder, and the training is not controlled."
)


class WatchedTrainings(QWidget):
    """Hidden widget whose parent is the dialog's parent.

    Args:
        operations: runs blocking work.
        logins: connects to nodes.
        commands: reaps the controllers that are started.
        parent: the page.
    """

    watched = Signal(str)
    """Emitted with the id of a run that is watched now."""
    failed = Signal(str)
    """Emitted with the reason why the dialog cannot open."""

    def __init__(
        self, operations: Operations, logins: Logins, commands: RunCommands, parent: QWidget
    ) -> None:
        super().__init__(parent)
        self.hide()
        self._operations, self._logins, self._commands = operations, logins, commands
        self._dialog: WatchDialog | None = None

    @property
    def dialog(self) -> WatchDialog | None:
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
        self._dialog = WatchDialog(tuple(node_inventory.nodes), self.window())
        self._dialog.watch_asked.connect(self._watch)
        self._dialog.finished.connect(self._closed)
        self._dialog.open()

    def _closed(self) -> None:
        self._dialog = None

    def _watch(self, place: str, pid: int | None) -> None:
        dialog = self._dialog
        if dialog is None:
            return
        self._logins.ask_again()

        def call(progress: Callable[[str], None], cancel: Cancel) -> Watched:
            return watch_training(place, pid, self._commands.ui(progress, cancel), home=self._logins.home)

        operation: Operation[Watched] = self._operations.run(
            f"watching {place or f'process {pid}'}",
            call,
            done=lambda found: self._done(dialog, found),
            failed=lambda error: self._failed(dialog, error),
        )
        dialog.rejected.connect(operation.cancel)

    def _failed(self, dialog: WatchDialog, error: Exception) -> None:
        if dialog is self._dialog:
            dialog.show_error(str(error))

    def _done(self, dialog: WatchDialog, found: Watched) -> None:
        self._commands.look_after()
        self._commands.runs_touched.emit()
        if dialog is self._dialog:
            dialog.done(QDialog.DialogCode.Accepted)
        self.watched.emit(found.layout.root.name)


class WatchDialog(QDialog):
    """Window-modal dialog that watches nothing itself."""

    watch_asked = Signal(str, object)
    """Emitted with `DIR` or `NODE:DIR`, possibly empty, and a process or None."""

    def __init__(self, nodes: Sequence[str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Watch a training")
        self.setMinimumWidth(60 * GRID)
        self._is_busy = False
        self.node = QComboBox()
        self.node.addItems([HERE, *nodes])
        self.node.setAccessibleName("Node")
        self.folder = QLineEdit()
        self.folder.setAccessibleName("Folder")
        self.folder.setPlaceholderText("Folder in which the training writes")
        self.browse = QPushButton("&Browse…")
        self.browse.setAccessibleName("Browse for the folder")
        self.browse.clicked.connect(self._browse)
        self.process = QLineEdit()
        self.process.setAccessibleName("Process ID")
        self.process.setToolTip("Its memory is shown, with that of all that it starts")
        self.process.setPlaceholderText("Optional: the watch ends with it")
        self._told = label(kind=Type.BODY, role="secondary", wrap=True)
        self._told.setTextFormat(Qt.TextFormat.PlainText)
        self._told.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        self._buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.watch_button = self._buttons.addButton("&Watch", QDialogButtonBox.ButtonRole.ActionRole)
        self.watch_button.setProperty("role", "primary")
        self.watch_button.setDefault(True)
        self.watch_button.clicked.connect(self._ask)
        self._buttons.rejected.connect(self.reject)
        self.node.currentIndexChanged.connect(self._enable)
        for field in (self.folder, self.process):
            field.textChanged.connect(self._enable)
        self._lay_out()
        self._enable()
        self.folder.setFocus()

    @property
    def told(self) -> str:
        """Return the progress, or why nothing is watched."""
        return self._told.text()

    def show_error(self, why: str) -> None:
        """Show why it cannot be watched."""
        self._tell(f"✕ {why[:1].upper()}{why[1:]}", "error")
        self._is_busy = False
        self._enable()

    @property
    def _is_here(self) -> bool:
        return self.node.currentIndex() == 0

    def _lay_out(self) -> None:
        place = QHBoxLayout()
        place.setSpacing(GRID)
        place.addWidget(self.folder, 1)
        place.addWidget(self.browse)
        form = QFormLayout()
        form.setHorizontalSpacing(2 * GRID)
        form.setVerticalSpacing(GRID)
        form.addRow("&Node", self.node)
        folder = QLabel("&Folder")
        folder.setBuddy(self.folder)
        form.addRow(folder, place)
        form.addRow("&Process ID", self.process)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(2 * GRID)
        column.addWidget(label(_ABOUT, wrap=True))
        column.addLayout(form)
        column.addWidget(self._told)
        column.addWidget(self._buttons)

    def _browse(self) -> None:
        chosen = QFileDialog.getExistingDirectory(self, "Folder of the training", str(Path.home()))
        if chosen:
            self.folder.setText(chosen)

    def _enable(self) -> None:
        """Processes and folders can be chosen on this machine alone."""
        self.browse.setEnabled(self._is_here and not self._is_busy)
        self.process.setEnabled(self._is_here and not self._is_busy)
        for field in (self.node, self.folder):
            field.setEnabled(not self._is_busy)
        named = bool(self.folder.text().strip()) or (self._is_here and self._pid is not None)
        self.watch_button.setEnabled(named and not self._is_busy)

    @property
    def _pid(self) -> int | None:
        text = self.process.text().strip()
        return int(text) if text.isascii() and text.isdecimal() else None

    def _ask(self) -> None:
        folder = self.folder.text().strip()
        place = folder if self._is_here else f"{self.node.currentText()}:{folder}"
        self._is_busy = True
        self._enable()
        self._tell("Looking at it …", "secondary")
        self.watch_asked.emit(place, self._pid if self._is_here else None)

    def _tell(self, text: str, role: str) -> None:
        self._told.setText(text)
        if self._told.property("role") != role:
            self._told.setProperty("role", role)
            self._told.style().polish(self._told)
