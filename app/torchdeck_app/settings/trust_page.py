"""The page of the settings with the folders and files whose code may run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QFileDialog,
    QHBoxLayout,
    QHeaderView,
    QPushButton,
    QStackedWidget,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from torchdeck.trust.entry import Condition, State
from torchdeck.trust.trust_list import TrustList
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.empty_state import EmptyState
from torchdeck_app.widgets.panel import GRID, label
from torchdeck_app.widgets.tooltip import plain_tip

_MEANS = (
    "Code in these folders and files runs without a question: recipes and what they import, Pythons that run "
    "files name, commands of SSH configs."
)
_EMPTY = "A folder is trusted with all below it, a file as it is. Torchdeck asks when code would run."


WHY = Qt.ItemDataRole.UserRole
"""Under which an item has the reason why it does not count."""
_WORDS = {
    Condition.TRUSTED: "✓ Trusted",
    Condition.CHANGED: "? Asks again",
    Condition.WRITABLE: "✕ Others can write it",
    Condition.GONE: "○ Not there",
}


class TrustRow(NamedTuple):
    """One folder or file."""

    path: str
    state: State


def trust_rows(trusted: TrustList) -> tuple[TrustRow, ...]:
    """All that is in the list. Raises TrustError."""
    return tuple(TrustRow(entry.path, entry.state()) for entry in trusted.entries())


class TrustPage(QWidget):
    """Shows what is trusted, adds to it and takes out of it."""

    def __init__(
        self, theme: Theme, operations: Operations, home: Path, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._operations, self._trusted = operations, TrustList(home)
        self.said = label("", role="secondary", wrap=True)
        self.list = QTreeWidget()
        self.list.setAccessibleName("Trusted folders and files")
        self.list.setHeaderLabels(["Folder or file", "Status"])
        self.list.setRootIsDecorated(False)
        self.list.setUniformRowHeights(True)
        self.list.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.list.header().setStretchLastSection(False)
        self.list.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.list.header().setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        self.list.itemSelectionChanged.connect(self._show_ability)
        self.empty = EmptyState(theme, "check", "Nothing is trusted yet", _EMPTY)
        self._found = QStackedWidget()
        self._found.addWidget(self.list)
        self._found.addWidget(self.empty)
        self.add_folder = QPushButton("Trust a &folder…")
        self.add_folder.clicked.connect(lambda: self._choose(QFileDialog.FileMode.Directory))
        self.add_file = QPushButton("Trust a f&ile…")
        self.add_file.clicked.connect(lambda: self._choose(QFileDialog.FileMode.ExistingFile))
        self.remove_button = QPushButton("&Remove")
        self.remove_button.setToolTip("Ask again before its code runs")
        self.remove_button.clicked.connect(self._remove)
        self._lay_out()
        self._show_ability()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 - Qt's name
        """Read the list as it is now: the command line changes it too."""
        super().showEvent(event)
        self._run("reading what is trusted", lambda: None)

    def add(self, path: str) -> None:
        """Trust a folder or file."""
        self._run("trusting", lambda: self._trusted.add(Path(path)))

    def _lay_out(self) -> None:
        buttons = QHBoxLayout()
        buttons.setSpacing(GRID)
        buttons.addWidget(self.add_folder)
        buttons.addWidget(self.add_file)
        buttons.addStretch(1)
        buttons.addWidget(self.remove_button)
        column = QVBoxLayout(self)
        column.setContentsMargins(3 * GRID, 2 * GRID, 3 * GRID, GRID)
        column.setSpacing(GRID)
        column.addWidget(label(_MEANS, role="secondary", wrap=True))
        column.addWidget(self._found, 1)
        column.addWidget(self.said)
        column.addLayout(buttons)

    def _choose(self, mode: QFileDialog.FileMode) -> None:
        is_folder = mode is QFileDialog.FileMode.Directory
        dialog = QFileDialog(self, "Trust a folder" if is_folder else "Trust a file")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(mode)
        dialog.setOption(QFileDialog.Option.ShowDirsOnly, on=is_folder)
        dialog.setLabelText(QFileDialog.DialogLabel.Accept, "Trust")
        dialog.fileSelected.connect(self.add)
        dialog.open()

    def _remove(self) -> None:
        paths = [item.text(0) for item in self.list.selectedItems()]
        self._run("removing trust", lambda: [self._trusted.remove(Path(path)) for path in paths])

    def _run(self, name: str, change: Callable[[], object]) -> None:
        """Change the list, if there is anything to change, and show it."""

        self.said.setText("")

        def call(_progress: object, _cancel: object) -> tuple[TrustRow, ...]:
            change()
            return trust_rows(self._trusted)

        self._operations.run(name, call, done=self._show, failed=self._refused)

    def _show(self, rows: tuple[TrustRow, ...]) -> None:
        self.list.clear()
        for row in rows:
            item = QTreeWidgetItem([row.path, _WORDS[row.state.condition]])
            item.setData(0, WHY, row.state.why)
            item.setToolTip(0, plain_tip(row.path))
            item.setToolTip(1, plain_tip(row.state.why))
            self.list.addTopLevelItem(item)
        self._found.setCurrentWidget(self.list if rows else self.empty)
        self._show_ability()

    def _refused(self, error: Exception) -> None:
        self.said.setText(f"Nothing was changed: {error}")

    def _show_ability(self) -> None:
        chosen = self.list.selectedItems()
        self.remove_button.setEnabled(bool(chosen))
        if chosen:
            why = chosen[0].data(0, WHY)
            self.said.setText(f"{chosen[0].text(0)}: {why}" if why else chosen[0].text(0))
