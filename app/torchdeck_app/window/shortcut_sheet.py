"""All shortcuts on one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QLineEdit,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from torchdeck_app.widgets.dialogs import begin_with
from torchdeck_app.widgets.panel import GRID
from torchdeck_app.window.window_actions import plain_text, shortcut_text

EVERYWHERE = (
    ("Next control, the one before", "Tab, Shift+Tab"),
    ("Press a button, tick a box", "Space"),
    ("Open the menu bar", "Alt+F"),
    ("Next tab, the one before", "Ctrl+Tab, Ctrl+Shift+Tab"),
)
"""Useful keys of Qt itself."""


class ShortcutSheet(QDialog):
    """Table with a search field."""

    def __init__(self, actions: Mapping[str, Sequence[QAction]], parent: QWidget) -> None:
        """Args:
        actions: actions by page; the window's own under an empty name.
        parent: the window.
        """
        super().__init__(parent)
        self.setWindowTitle("Keyboard shortcuts")
        begin_with(self, 64 * GRID, 72 * GRID)
        search = QLineEdit()
        search.setPlaceholderText("Search")
        search.setAccessibleName("Search shortcuts")
        search.setClearButtonEnabled(True)
        search.textChanged.connect(self._search)
        self._groups: list[tuple[QTreeWidgetItem, list[QTreeWidgetItem]]] = []
        self._tree = _tree()
        for place, offered in actions.items():
            lines = [(plain_text(action), shortcut_text(action)) for action in offered]
            self._add_group(place or "The window", [line for line in lines if line[1]])
        self._add_group("Everywhere", list(EVERYWHERE))
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(GRID)
        column.addWidget(search)
        column.addWidget(self._tree, 1)
        column.addWidget(buttons)

    def _add_group(self, name: str, lines: list[tuple[str, str]]) -> None:
        if not lines:
            return
        group = QTreeWidgetItem(self._tree, [name, ""])
        heading = group.font(0)
        heading.setBold(True)
        group.setFont(0, heading)
        group.setFlags(Qt.ItemFlag.ItemIsEnabled)
        self._groups.append((group, [QTreeWidgetItem(group, list(line)) for line in lines]))
        group.setExpanded(True)

    def _search(self, text: str) -> None:
        """Hide rows without a match in words or keys."""
        wanted = text.lower()
        for group, lines in self._groups:
            for line in lines:
                line.setHidden(wanted not in f"{line.text(0)} {line.text(1)}".lower())
            group.setHidden(all(line.isHidden() for line in lines))


def _tree() -> QTreeWidget:
    made = QTreeWidget()
    made.setAccessibleName("Shortcuts")
    made.setColumnCount(2)
    made.setHeaderLabels(["Action", "Keys"])
    made.setRootIsDecorated(False)
    made.setUniformRowHeights(True)
    made.setItemsExpandable(False)
    made.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
    made.header().setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
    return made
