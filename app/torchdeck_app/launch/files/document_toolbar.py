"""Actions of the Launch page, and the toolbar above the document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QAction, QKeySequence, QUndoStack
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QMenu, QSizePolicy, QToolButton, QWidget
from shiboken6 import isValid

from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.icons import icon
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import control_text, plain_tip
from torchdeck_app.widgets.panel import label

VIEWS = ("form", "toml")


class DocumentToolbar(QWidget):
    """Toolbar for the page's actions."""

    view_chosen = Signal(str)
    """`form` or `toml`."""
    file_chosen = Signal(object)
    """Emitted with the Path of a recent file."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.name = QToolButton()
        self.name.setFont(font(Type.HEADING))
        self.name.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.name.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextOnly)
        self.name.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.name.setMinimumWidth(96)
        self.menu = QMenu(self)
        self.menu.setToolTipsVisible(True)
        self.name.setMenu(self.menu)
        self.marker = label("", Type.SMALL, "secondary")
        self.marker.setMinimumWidth(self.marker.fontMetrics().horizontalAdvance("• not saved"))
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(4, 4, 4, 4)
        self._row.setSpacing(4)
        self._row.addWidget(self.name)
        self._row.addWidget(self.marker)
        self._row.addStretch(1)
        self._row.addLayout(self._switch())

    def add_buttons(self, *actions: QAction) -> None:
        """Add buttons for actions, before the switch."""
        for action in actions:
            button = QToolButton()
            button.setDefaultAction(action)
            button.setAccessibleName(action.text().replace("&", ""))
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            self._row.insertWidget(self._row.count() - 1, button)

    def fill_menu(self, actions: LaunchActions, recent: Sequence[Path]) -> None:
        """Fill the menu with file actions and recent files."""
        self.menu.clear()
        self.menu.addActions([actions.new, actions.open, actions.script])
        before = self.menu.addMenu("Open &recent")
        before.setToolTipsVisible(True)
        for path in recent:
            action = before.addAction(control_text(path.name))
            action.setToolTip(plain_tip(str(path)))
            action.triggered.connect(lambda _checked=False, path=path: self.file_chosen.emit(path))
        before.setEnabled(bool(recent))
        self.menu.addSeparator()
        self.menu.addActions([actions.save, actions.save_as])
        self.menu.addSeparator()
        self.menu.addAction(actions.diff)

    def show_name(self, name: str, path: Path | None, *, is_saved: bool) -> None:
        """Show the document's name, its path, and whether it is saved."""
        fitting = self.name.fontMetrics().elidedText(name, Qt.TextElideMode.ElideMiddle, 200)
        self.name.setText(control_text(fitting))
        where = str(path) if path is not None else "not in a file yet"
        self.name.setToolTip(plain_tip(where))
        self.name.setAccessibleName(f"{name}, {where}")
        self.marker.setText("" if is_saved else "• not saved")

    def show_view(self, view: str) -> None:
        """Show which view is active."""
        self.switches[view].setChecked(True)

    def show_switch(self, *, there: bool) -> None:
        """Show the switch between form and text, which is not needed while both are visible."""
        for button in self.switches.values():
            button.setVisible(there)

    def _switch(self) -> QHBoxLayout:
        self.switches: dict[str, QToolButton] = {}
        group = QButtonGroup(self)
        row = QHBoxLayout()
        row.setSpacing(0)
        for view, text in zip(VIEWS, ("Form", "TOML"), strict=True):
            button = QToolButton()
            button.setText(text)
            button.setCheckable(True)
            button.setAccessibleName(f"Show the run file as {text}")
            button.setToolTip(f"Show the run file as {text} (Ctrl+T)")
            button.clicked.connect(lambda _checked=False, view=view: self.view_chosen.emit(view))
            group.addButton(button)
            row.addWidget(button)
            self.switches[view] = button
        return row


class LaunchActions(QObject):
    """Actions whose functions are set by `connect_to`; a name in `data` is the menu of an action."""

    def __init__(self, theme: Theme, undo_stack: QUndoStack, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme, self._parent = theme, parent
        self._icons: list[tuple[QAction, str]] = []
        self.all: list[QAction] = []
        self._in_document: list[QAction] = []
        self.new = self._made("&New run …", "Ctrl+N", "Choose what to start from", "File", "add")
        self.open = self._made("&Open …", "Ctrl+O", "Open a run file or a script", "File", "folder")
        self.script = self._made("Start from a s&cript …", "", "A run file for a script of yours", "File")
        self.save = self._inside("&Save", "Ctrl+S", "Save the run file", "File", "save")
        self.save_as = self._inside("Save &as …", "Ctrl+Shift+S", "Save under another name", "File")
        self.undo = undo_stack.createUndoAction(parent, "Undo")
        self.redo = undo_stack.createRedoAction(parent, "Redo")
        self._add_history(self.undo, "undo", "Ctrl+Z")
        self._add_history(self.redo, "redo", "Ctrl+Y", "Ctrl+Shift+Z")
        self.find = self._inside("&Find …", "Ctrl+F", "Find a key or a text", "Edit", "search")
        self.go_to_line = self._inside("Go to &line …", "Ctrl+L", "Go to a line of the text", "Edit")
        self.switch = self._inside("Form or &TOML", "Ctrl+T", "Show the other view of the run file", "View")
        self.diff = self._inside(
            "&What changed since a run …", "Ctrl+Shift+D", "Compare with what a run was started with", ""
        )
        self.check = self._inside("&Check", "Ctrl+Shift+Return", "Check the run for problems", "Run", "check")
        self.check.setShortcuts([QKeySequence("Ctrl+Shift+Return"), QKeySequence("Ctrl+Shift+Enter")])
        self.launch = self._inside("&Launch", "Ctrl+Return", "Start the previewed run", "Run", "launch")
        self.launch.setShortcuts([QKeySequence("Ctrl+Return"), QKeySequence("Ctrl+Enter")])
        self.queue = self._inside(
            "&Add to the queue", "Ctrl+Alt+Return", "Queue the run; it starts when devices are free", "Run"
        )
        self.queue.setShortcuts([QKeySequence("Ctrl+Alt+Return"), QKeySequence("Ctrl+Alt+Enter")])
        self.forget_secrets = self._inside(
            "&Forget secrets", "", "Forget entered values of this run's secrets, in the keyring, too", "Run"
        )
        self.export_scripts = self._made(
            "Export shell &scripts …", "", "Write a script for each node that starts it without Torchdeck", ""
        )
        self.export_job = self._made(
            "Export a script for s&batch …", "", "Write a script that starts this with Slurm", ""
        )
        undo_stack.undoTextChanged.connect(self._tell_undo)
        undo_stack.redoTextChanged.connect(self._tell_undo)
        self._tell_undo()
        theme.changed.connect(self._draw)
        self._draw()

    def _inside(self, *described: str) -> QAction:
        """Create an action that needs a document."""
        action = self._made(*described)
        self._in_document.append(action)
        return action

    def _add_history(self, action: QAction, picture: str, *keys: str) -> None:
        action.setShortcuts([QKeySequence(key) for key in keys])
        action.setData("Edit")
        self._icons.append((action, picture))
        self.all.append(action)

    def _made(self, text: str, keys: str, tip: str, menu: str, picture: str = "") -> QAction:
        action = QAction(text, self._parent)
        if keys:
            action.setShortcut(QKeySequence(keys))
        action.setToolTip(f"{tip} ({keys.replace('Return', 'Enter')})" if keys else tip)
        action.setData(menu)
        if picture:
            self._icons.append((action, picture))
        self.all.append(action)
        return action

    @staticmethod
    def connect_to(calls: Mapping[QAction, Callable[[], object]]) -> None:
        """Say what actions do."""
        for action, call in calls.items():
            action.triggered.connect(lambda _checked=False, call=call: call())

    def set_document(self, *, there: bool) -> None:
        """Set whether there is a document to act on."""
        for action in self._in_document:
            action.setEnabled(there)

    def set_preview(self, *, there: bool) -> None:
        """Set whether there is a plan to export."""
        self.export_scripts.setEnabled(there)
        self.export_job.setEnabled(there)

    def _tell_undo(self) -> None:
        for action in (self.undo, self.redo):
            if not isValid(action):
                return  # the stack empties itself on destruction
            action.setToolTip(f"{action.text()} ({action.shortcut().toString()})")

    def _draw(self) -> None:
        for action, name in self._icons:
            action.setIcon(icon(name, self._theme.palette))
