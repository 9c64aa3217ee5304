"""Toolbar above the document: name and menu, undo and redo, search, and the form/text switch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QMenu, QSizePolicy, QToolButton, QWidget

from torchdeck_app.launch.files.actions import LaunchActions
from torchdeck_app.theme.fonts import Type, font
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
