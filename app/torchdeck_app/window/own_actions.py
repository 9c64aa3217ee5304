"""Actions of the window itself, by menu, and the page of all shortcuts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QHeaderView,
    QLineEdit,
    QMessageBox,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from torchdeck.contract.package import VERSION
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.settings.user_settings import SettingsStore
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.dialogs import begin_with
from torchdeck_app.widgets.help import open_page
from torchdeck_app.widgets.panel import GRID
from torchdeck_app.window.main_window import ActionsByMenu, MainWindow
from torchdeck_app.window.window_actions import (
    ANSWER_KEYS,
    ThemeActions,
    make_action,
    plain_text,
    shortcut_text,
)


class OwnActions(QObject):
    """Factory of the actions and of the dialogs that some of them open."""

    palette_asked = Signal()
    answer_asked = Signal()
    """Emitted to act on the latest notification."""

    def __init__(
        self,
        window: MainWindow,
        store: SettingsStore,
        open_path: Callable[[Path], None],
        theme: Theme,
        operations: Operations,
    ) -> None:
        super().__init__(window)
        self._window = window
        self._theme, self._operations = theme, operations
        self._store = store
        self._open_path = open_path
        self._dialogs: dict[str, QDialog] = {}

    def menus(self) -> ActionsByMenu:
        """Return the actions by menu; None is a separator."""
        make, close = self._make, self._window.close
        return {
            "File": (
                make("&Open…", "Ctrl+O", "Open a run file or a script", self._open),
                None,
                make("&Settings…", "Ctrl+,", "Settings of the window", self._settings),
                make("&Close window", "Ctrl+Q", "Runs continue without it", close),
            ),
            "View": self._view(),
            "Help": (
                make("&Documentation", "", "Open the documentation in the browser", open_page),
                make("&Keyboard shortcuts", ("F1", "Ctrl+/"), "All shortcuts", self._shortcuts),
                make("&About Torchdeck", "", "Version and licence", self._about),
            ),
        }

    def _make(self, text: str, keys: str | tuple[str, ...], hint: str, call: Callable[[], object]) -> QAction:
        return make_action(text, keys, hint, call, self._window)

    def _view(self) -> tuple[QAction | None, ...]:
        make, answer_hint = self._make, "Press the button of the latest notification"
        return (
            *self._places(),
            None,
            make("Command &palette…", "Ctrl+K", "Find an action or a run", self.palette_asked.emit),
            make("Act on the latest &notification", ANSWER_KEYS, answer_hint, self.answer_asked.emit),
            None,
            *ThemeActions(self._store, self._window).actions,
            None,
            make("&Full screen", "F11", "Toggle full screen", self._full_screen),
        )

    def _places(self) -> list[QAction]:
        return [
            self._make(
                name,
                f"Ctrl+{number}",
                f"Go to {name}",
                lambda name=name: self._window.focus_page(name),  # type: ignore[misc]  # no default inferred
            )
            for number, name in enumerate(self._window.stack.names, 1)
        ]

    def _full_screen(self) -> None:
        self._window.setWindowState(self._window.windowState() ^ Qt.WindowState.WindowFullScreen)

    def _open(self) -> None:
        dialog = QFileDialog(self._window, "Open a run file or a script")
        dialog.setNameFilters(["Run files and scripts (*.toml *.py)", "All files (*)"])
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(lambda name: self._open_path(Path(name)))
        self._present("open", dialog)

    def _settings(self) -> None:
        from torchdeck_app.settings.dialog import SettingsDialog

        self._present("settings", SettingsDialog(self._store, self._theme, self._operations, self._window))

    def _shortcuts(self) -> None:
        self._present("shortcuts", ShortcutSheet(self._window.actions_by_page(), self._window))

    def _about(self) -> None:
        box = QMessageBox(self._window)
        box.setWindowTitle("About Torchdeck")
        box.setText(f"Torchdeck {VERSION}")
        box.setInformativeText("Launches distributed PyTorch training and watches it. Apache License 2.0.")
        self._present("about", box)

    def _present(self, name: str, dialog: QDialog) -> None:
        """Show a non-modal dialog; one of each kind."""
        before = self._dialogs.get(name)
        if before is not None:
            dialog.deleteLater()
            before.raise_()
            before.activateWindow()
            return
        self._dialogs[name] = dialog
        dialog.setModal(False)
        dialog.finished.connect(lambda _result: self._forget(name))
        dialog.show()

    def _forget(self, name: str) -> None:
        self._dialogs.pop(name).deleteLater()


# All shortcuts on one page.

INSIDE: Mapping[str, Sequence[tuple[str, str]]] = {
    "Everywhere": (
        ("Next control, previous control", "Tab, Shift+Tab"),
        ("Press a button, tick a box", "Space"),
        ("Open the menu bar", "Alt+F"),
        ("Open the context menu", "Menu, Shift+F10"),
        ("Next tab, previous tab", "Ctrl+Tab, Ctrl+Shift+Tab"),
        ("Move a divider that has the focus", "Arrow keys, Home, End"),
    ),
    "In the form": (
        ("Help of the setting", "F1"),
        ("Reference of the setting in the browser", "Shift+F1"),
        ("Open a group, close it", "Right, Left"),
    ),
    "In the placement": (
        ("Go to another node or device", "Arrow keys"),
        ("Turn it on or off", "Space"),
        ("Move the node", "Alt+Up, Alt+Down"),
        ("Remove the node", "Del"),
        ("Zoom in, zoom out, fit", "Ctrl++, Ctrl+-, Ctrl+0"),
    ),
    "In a plot": (
        ("Move", "Left, Right"),
        ("Zoom in, zoom out, show everything", "+, -, Home"),
        ("Move the crosshair, which says its values", "Ctrl+Left, Ctrl+Right"),
        ("Pin the values at the crosshair", "P"),
        ("Show it alone, show all again", "Enter, Esc"),
    ),
    "In the heat map of ranks": (("Go to another rank or time, which says its value", "Arrow keys"),),
    "In the log": (
        ("Go to another line", "Up, Down, Page Up, Page Down, Home, End"),
        ("Select lines, copy them", "Shift+Up, Shift+Down, Ctrl+C"),
    ),
}
"""Keys that are no actions of a menu, by where they work."""


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
        for where, keys in INSIDE.items():
            self._add_group(where, list(keys))
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
