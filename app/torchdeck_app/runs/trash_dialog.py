"""Dialog with the deleted runs: what they take, back to the list, or gone for good."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QMessageBox,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)
from shiboken6 import isValid

from torchdeck.agent.probe.run_folders import room_of
from torchdeck.quantities import ago, counted, moment, size
from torchdeck.runs.folders.trash import Trashed, in_trash
from torchdeck.shown_text import shown
from torchdeck.use_cases.delete import NodeDeletion, empty_trash, restore
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.bridge.operations import Cancel, Operations
from torchdeck_app.bridge.worker_ui import WorkerUi
from torchdeck_app.widgets.dialogs import Choice, ask, begin_with
from torchdeck_app.widgets.panel import GRID, label

T = TypeVar("T")
_SIZE = 640, 400


class Measured(NamedTuple):
    """A run in the trash, and the bytes that it takes."""

    run: Trashed
    room: int


class TrashDialog(QDialog):
    """Window-modal dialog; what it does goes on if it is closed."""

    def __init__(
        self,
        operations: Operations,
        logins: Logins,
        touched: Callable[[], object],
        failed: Callable[[str], object],
        parent: QWidget,
    ) -> None:
        """Create it, and read the trash.

        Args:
            operations: runs blocking work.
            logins: of the home; nodes are asked without prompting.
            touched: called when runs were restored or removed, also once it is closed.
            failed: called with what failed, or is left on nodes, one sentence per line.
            parent: Qt parent.
        """
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Deleted runs")
        self._operations, self._logins = operations, logins
        self._touched, self._failed = touched, failed
        self._found: Sequence[Measured] = ()
        self.list = QTreeWidget()
        self.list.setHeaderLabels(["Run", "Deleted", "Size"])
        self.list.header().setStretchLastSection(False)
        self.list.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.list.setRootIsDecorated(False)
        self.list.setUniformRowHeights(True)
        self.list.setSelectionMode(QTreeWidget.SelectionMode.ExtendedSelection)
        self.list.setAccessibleName("Deleted runs")
        self.list.itemSelectionChanged.connect(self._enable)
        self.told = label("Reading …", role="secondary", wrap=True)
        self.told.setTextFormat(Qt.TextFormat.PlainText)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        self.restore = buttons.addButton("&Restore", QDialogButtonBox.ButtonRole.ActionRole)
        self.empty = buttons.addButton("&Empty …", QDialogButtonBox.ButtonRole.ActionRole)
        self.restore.clicked.connect(self._restore)
        self.empty.clicked.connect(self._ask_to_empty)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(GRID)
        column.addWidget(self.list, 1)
        column.addWidget(self.told)
        column.addWidget(buttons)
        begin_with(self, *_SIZE)
        self._enable()
        self._read()

    def _read(self) -> None:
        if not isValid(self):
            return  # closed meanwhile
        self._operations.run(
            "measuring the deleted runs",
            lambda _progress, cancel: _measured(self._logins.home, cancel),
            done=self._show,
            failed=lambda error: self._tell(f"They cannot be read: {error}"),
        )

    def _tell(self, text: str) -> None:
        if isValid(self):
            self.told.setText(shown(text))

    def _show(self, found: Sequence[Measured]) -> None:
        if not isValid(self):
            return
        self._found = found
        self.list.clear()
        for each in found:
            deleted = ago(time.time() - each.run.deleted)
            item = QTreeWidgetItem([shown(each.run.label), deleted, size(each.room)])
            item.setToolTip(0, shown(each.run.run_id))
            item.setToolTip(1, moment(each.run.deleted))
            item.setToolTip(2, f"{each.room:,} bytes")
            item.setTextAlignment(2, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            self.list.addTopLevelItem(item)
        for column in (1, 2):
            self.list.resizeColumnToContents(column)
        what = counted(len(found), "run")
        after = "Deleted runs are removed after 30 days."
        self.told.setText(f"{what}, {size(self._room)}. {after}" if found else "The trash is empty.")
        self._enable()

    @property
    def _room(self) -> int:
        return sum(each.room for each in self._found)

    def _enable(self) -> None:
        self.restore.setEnabled(bool(self.list.selectedItems()))
        self.empty.setEnabled(bool(self._found))

    def _restore(self) -> None:
        chosen = [self._found[self.list.indexOfTopLevelItem(item)] for item in self.list.selectedItems()]

        def call(progress: Callable[[str], None], _cancel: Cancel) -> None:
            for each in chosen:
                progress(f"restoring {each.run.label}")
                restore(each.run.folder)

        self._do("restoring runs", call, lambda _: None)

    def _ask_to_empty(self) -> None:
        what = counted(len(self._found), "run")
        ask(
            self,
            f"Remove {what} for good?",
            f"This frees {size(self._room)} here. What their nodes have of them is removed, too.",
            [
                Choice("Remove", QMessageBox.ButtonRole.DestructiveRole, self._empty_now),
                Choice("Cancel", QMessageBox.ButtonRole.RejectRole, lambda: None),
            ],
            default=1,
        )

    def _empty_now(self) -> None:
        chosen = [each.run for each in self._found]

        def call(progress: Callable[[str], None], cancel: Cancel) -> Sequence[NodeDeletion]:
            return empty_trash(chosen, WorkerUi(self._logins.quiet, progress, cancel), progress)

        def done(told: Sequence[NodeDeletion] | None) -> None:
            left = [str(each) for each in told or () if each.why]
            if left:
                self._failed("\n".join(left))

        self._do("emptying the trash", call, done)

    def _do(
        self, name: str, call: Callable[[Callable[[str], None], Cancel], T], done: Callable[[T], None]
    ) -> None:
        def over(result: T) -> None:
            done(result)
            self._touched()
            self._read()

        def failed(error: Exception) -> None:
            self._touched()
            self._failed(str(error))
            self._read()

        self._operations.run(name, call, done=over, failed=failed)


def _measured(home: Path, cancel: Cancel) -> tuple[Measured, ...]:
    return tuple(Measured(each, room_of(each.folder, cancel.check)) for each in in_trash(home))
