"""Dialog with the files of a run's directory on its nodes, which can be fetched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QHBoxLayout,
    QHeaderView,
    QProgressBar,
    QPushButton,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)
from shiboken6 import isValid

from torchdeck.contract.layout import RunLayout
from torchdeck.quantities import counted, moment, size
from torchdeck.runs.folders.file_tree import FileEntry, FileTree
from torchdeck.runs.run_list import RunEntry
from torchdeck.shown_text import shown, shown_line
from torchdeck.use_cases.nodes.run_files import Fetched, fetch_files, list_files
from torchdeck.use_cases.opening.shell import shell_nodes
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.bridge.operations import Cancel, Operation, Operations
from torchdeck_app.bridge.worker_ui import WorkerUi
from torchdeck_app.widgets.dialogs import begin_with
from torchdeck_app.widgets.inputs import NamedBox
from torchdeck_app.widgets.labels import control_text, plain_tip
from torchdeck_app.widgets.panel import GRID, label

_SIZE = 720, 480
_STEPS = 1000
"""Steps of the progress bar."""
_PATH = Qt.ItemDataRole.UserRole


class FilesDialog(QDialog):
    """Window-modal dialog; a folder's content is added to the tree when it is opened."""

    _moved = Signal(int, str)
    """Emitted in the worker with the share of a fetch, in thousandths, and the current file."""

    def __init__(
        self,
        operations: Operations,
        logins: Logins,
        layout: RunLayout,
        name: str,
        parent: QWidget | None = None,
    ) -> None:
        """Create it, and list the files of the run's first node.

        Args:
            operations: runs blocking work.
            logins: of the home; nodes may prompt.
            layout: of the run.
            name: of the run, for the title.
            parent: Qt parent.
        """
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(f"Files of {shown_line(name)}")
        self._operations, self._logins, self._layout = operations, logins, layout
        self._found: FileTree | None = None
        self._fetching: Operation[Fetched] | None = None
        self.node = NamedBox()
        self.node.setAccessibleName("Node")
        self.node.setToolTip("The node whose files are shown")
        self.node.activated.connect(lambda _index: self.read())
        self.again = QPushButton("&Refresh")
        self.again.setToolTip("List the files again")
        self.again.clicked.connect(self.read)
        self.list = _tree()
        self.list.itemExpanded.connect(self._fill)
        self.list.itemSelectionChanged.connect(self._enable)
        self.told = label("Reading …", role="secondary", wrap=True)
        self.told.setTextFormat(Qt.TextFormat.PlainText)
        self.bar = QProgressBar()
        self.bar.setRange(0, _STEPS)
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName("Fetched")
        self.cancel = QPushButton("Ca&ncel")
        self.cancel.setAccessibleName("Cancel the fetch")
        self.cancel.setToolTip("What is here already stays; the next fetch continues")
        self.cancel.clicked.connect(self._cancel)
        self._moved.connect(self._move)
        self.finished.connect(lambda _result: self._cancel())
        self._lay_out()
        self._show_fetching(on=False)
        self._enable()
        self._ask_nodes()

    def read(self) -> None:
        """List the files of the chosen node."""
        node, found = self.node.currentData(), self._layout
        self._found = None
        self.list.clear()
        self._tell("Reading …")
        self._enable()

        def call(progress: Callable[[str], None], cancel: Cancel) -> FileTree:
            return list_files(found, node, WorkerUi(self._logins.asking, progress, cancel))

        self._logins.ask_again()
        self._operations.run(
            f"listing the files on {node}",
            call,
            done=lambda tree: self._show(node, tree),
            failed=lambda error: self._tell(f"The files cannot be listed: {error}"),
        )

    def fetch_to(self, folder: Path) -> None:
        """Fetch the selected files and folders."""
        node, paths = self.node.currentData(), self.chosen

        def call(progress: Callable[[str], None], cancel: Cancel) -> Fetched:
            def told(what: str, done: int, total: int) -> None:
                share = _STEPS if not total else _STEPS * done // total
                with suppress(RuntimeError):  # the dialog is gone
                    self._moved.emit(share, f"{size(done)} of {size(total)}: {shown_line(what)}")

            ui = WorkerUi(self._logins.asking, progress, cancel)
            return fetch_files(self._layout, node, paths, folder, ui, told)

        self._fetching = operation = self._operations.run(
            f"fetching files from {node}", call, done=self._fetched, failed=self._not_fetched
        )
        operation.progressed.connect(self._tell)
        operation.cancelled.connect(lambda: self._over("The fetch was cancelled; the next one continues."))
        self._show_fetching(on=True)

    @property
    def chosen(self) -> tuple[str, ...]:
        """Return the selected paths, below the run's directory."""
        return tuple(str(item.data(0, _PATH)) for item in self.list.selectedItems())

    def _lay_out(self) -> None:
        above = QHBoxLayout()
        above.addWidget(self.node, 1)
        above.addWidget(self.again)
        fetching = QHBoxLayout()
        fetching.addWidget(self.bar, 1)
        fetching.addWidget(self.cancel)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        self.fetch = buttons.addButton("&Fetch …", QDialogButtonBox.ButtonRole.ActionRole)
        self.fetch.setToolTip("Copy the selected files and folders to a folder of this machine")
        self.fetch.clicked.connect(self._choose_folder)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(GRID)
        column.addLayout(above)
        column.addWidget(self.list, 1)
        column.addWidget(self.told)
        column.addLayout(fetching)
        column.addWidget(buttons)
        begin_with(self, *_SIZE)

    def _ask_nodes(self) -> None:
        def show(nodes: Sequence[str]) -> None:
            if isValid(self):
                for node in nodes:
                    self.node.addItem(control_text("This machine" if node == "localhost" else node), node)
                self.read()

        self._operations.run(
            "looking for the run's nodes", lambda _progress, _cancel: shell_nodes(self._layout), done=show
        )

    def _show(self, node: str, tree: FileTree) -> None:
        if not isValid(self) or node != self.node.currentData():
            return
        self._found = tree
        self.list.addTopLevelItems([_item(entry) for entry in tree.entries()])
        files = tree.files([""])
        total = size(sum(file.size for file in files))
        self._tell(f"{counted(len(files), 'file')}, {total}. Links and empty folders are left out.")

    def _fill(self, item: QTreeWidgetItem) -> None:
        if self._found is not None and not item.childCount():
            item.addChildren([_item(entry) for entry in self._found.entries(str(item.data(0, _PATH)))])

    def _choose_folder(self) -> None:
        dialog = QFileDialog(self, "Fetch to a folder")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setOption(QFileDialog.Option.ShowDirsOnly)
        dialog.setLabelText(QFileDialog.DialogLabel.Accept, "Fetch")
        dialog.fileSelected.connect(lambda path: self.fetch_to(Path(path)))
        dialog.open()

    def _move(self, share: int, text: str) -> None:
        if self._fetching is not None:
            self.bar.setValue(share)
            self._tell(text)

    def _fetched(self, found: Fetched) -> None:
        where = f"{counted(found.files, 'file')} in {shown_line(str(found.folder))}"
        self._over("\n".join((where, *found.problems)))

    def _not_fetched(self, error: Exception) -> None:
        self._over(f"The files were not fetched: {error}")

    def _over(self, sentence: str) -> None:
        self._fetching = None
        if isValid(self):
            self._show_fetching(on=False)
            self._tell(sentence)

    def _cancel(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()

    def _show_fetching(self, *, on: bool) -> None:
        self.bar.setValue(0)
        for widget in (self.bar, self.cancel):
            widget.setVisible(on)
        self._enable()

    def _enable(self) -> None:
        is_free = self._fetching is None
        self.fetch.setEnabled(is_free and bool(self.list.selectedItems()))
        for widget in (self.node, self.again):
            widget.setEnabled(is_free)

    def _tell(self, text: str) -> None:
        if isValid(self):
            self.told.setText(shown(text))


def open_files(operations: Operations, logins: Logins, entry: RunEntry, parent: QWidget) -> None:
    """Show the files of a run."""
    FilesDialog(operations, logins, entry.layout, entry.name, parent).open()


def _tree() -> QTreeWidget:
    tree = QTreeWidget()
    tree.setHeaderLabels(["Name", "Size", "Changed"])
    tree.setUniformRowHeights(True)
    tree.setSelectionMode(QTreeWidget.SelectionMode.ExtendedSelection)
    tree.setAccessibleName("Files of the run")
    tree.header().setStretchLastSection(False)
    tree.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
    for column in (1, 2):
        tree.header().setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
    return tree


def _item(entry: FileEntry) -> QTreeWidgetItem:
    item = QTreeWidgetItem([shown_line(entry.name), size(entry.size), moment(entry.modified / 1e9)])
    item.setData(0, _PATH, entry.path)
    item.setToolTip(0, plain_tip(entry.path))
    item.setToolTip(1, f"{entry.size:,} bytes")
    item.setTextAlignment(1, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    if entry.is_folder:
        item.setChildIndicatorPolicy(QTreeWidgetItem.ChildIndicatorPolicy.ShowIndicator)
    return item
