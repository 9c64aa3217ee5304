"""Factory of the control for a field."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QCheckBox, QFileDialog, QHBoxLayout, QMenu, QPushButton, QVBoxLayout, QWidget

from torchdeck.config.keys import Key
from torchdeck_app.launch.form.base_control import Control, SmallButton, ValueLine
from torchdeck_app.launch.form.form_state import FieldState, Kind, words_of
from torchdeck_app.launch.form.pair_table import PairsControl
from torchdeck_app.launch.form.value_controls import ChoiceControl, LineControl, WordControl
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import control_text


def is_wide(kind: Kind, key: Key) -> bool:
    """Return whether the control extends over the unit's column: for text, paths and lists."""
    numeric = bool(key.types) and set(key.types) <= {"int", "float", "bool"} and key.default is not None
    return kind is not Kind.CHOICE and kind is not Kind.SWITCH and not numeric and unit_of(key) == ""


def unit_of(key: Key) -> str:
    """Return the unit after the control; a size includes its unit."""
    return "" if "size" in key.types else key.unit or ""


def make_control(
    theme: Theme,
    kind: Kind,
    state: FieldState,
    folder: Callable[[], Path],
    node_names: Callable[[], Sequence[str]] = tuple,
) -> Control:
    """Create a control of `kind`; tables are created by the code that creates rows."""
    if state.key.path == NODES:
        return NodesControl(theme, state, node_names)
    if kind is Kind.PATH:
        return PathControl(theme, state, folder)
    if kind is Kind.LINES:
        return LinesControl(theme, state)
    if kind is Kind.PAIRS:
        return PairsControl(theme, state)
    plain = {Kind.SWITCH: SwitchControl, Kind.CHOICE: ChoiceControl, Kind.WORD_OR_LINE: WordControl}
    return plain.get(kind, LineControl)(state)


class SwitchControl(Control):
    """Checkbox control."""

    def __init__(self, state: FieldState, parent: QWidget | None = None) -> None:
        super().__init__(state, parent)
        self.box = QCheckBox()
        self.box.setAccessibleName(state.key.name)
        self.box.clicked.connect(lambda: self.ask_value(self.box.isChecked()))
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.box)
        row.addStretch(1)
        self.setFocusProxy(self.box)
        self.setMinimumHeight(28)  # as high as a line
        self.show_state(state)

    def show_state(self, state: FieldState) -> None:
        super().show_state(state)
        checked = state.value is True
        self.box.setCheckState(Qt.CheckState.Checked if checked else Qt.CheckState.Unchecked)
        self.box.setText("on" if checked else "off")


NODES = ("distributed", "nodes")
_NONE = "The node inventory has no nodes: add them in Nodes"


class NodesControl(LineControl):
    """Line whose menu adds names to the list, or removes them."""

    def __init__(
        self,
        theme: Theme,
        state: FieldState,
        names: Callable[[], Sequence[str]],
        parent: QWidget | None = None,
    ) -> None:
        """Args:
        theme: theme of the window.
        state: state of the field.
        names: returns the possible names: nodes, groups, tags.
        parent: Qt parent.
        """
        super().__init__(state, parent)
        self.choose = SmallButton(theme, "nodes", "Choose from the node inventory")
        self._names = names
        self.menu = QMenu(self)
        self.menu.triggered.connect(self._toggle_action)
        self.choose.clicked.connect(self._open_menu)
        self._row.addWidget(self.choose)

    @property
    def chosen(self) -> list[str]:
        """Return the names in the file; empty if it has a number or range of nodes."""
        value = self.state.value
        return [str(name) for name in value] if isinstance(value, (list, tuple)) else []

    def set_writable(self, *, writable: bool) -> None:
        super().set_writable(writable=writable)
        self.choose.setEnabled(writable)

    def fill_menu(self) -> None:
        """Fill the menu with the current inventory."""
        self.menu.clear()
        names = self._names()
        for name in names:
            action = self.menu.addAction(control_text(name))
            action.setCheckable(True)
            action.setChecked(name in self.chosen)
        if not names:
            self.menu.addAction(_NONE).setEnabled(False)

    def _open_menu(self) -> None:
        self.fill_menu()
        self.menu.popup(self.choose.mapToGlobal(self.choose.rect().bottomLeft()))

    def _toggle_action(self, action: QAction) -> None:
        self._toggle(action.text(), is_on=action.isChecked())

    def _toggle(self, name: str, *, is_on: bool) -> None:
        # a run on inventory nodes rarely uses this machine too, which is the default entry
        before = self.chosen if self.state.own else []
        names = [other for other in before if other != name] + ([name] if is_on else [])
        if names:
            self.ask_value(names)
        else:
            self.ask_reset()


class LinesControl(Control):
    """Control with one line per item; an empty line is removed when it loses focus."""

    def __init__(self, theme: Theme, state: FieldState, parent: QWidget | None = None) -> None:
        super().__init__(state, parent)
        self._theme = theme
        self.lines: list[ValueLine] = []
        self._rows: list[QWidget] = []
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(4)
        self.add = QPushButton("Add")
        self.add.setAccessibleName(f"add to {state.key.name}")
        self.add.setToolTip("Add a line")
        self.add.clicked.connect(self._begin)
        self._column.addWidget(self.add, alignment=Qt.AlignmentFlag.AlignLeft)
        self.show_state(state)

    def show_state(self, state: FieldState) -> None:
        super().show_state(state)
        items = list(state.value or [])
        beginning = len(self.lines) > len(items) and not self.lines[-1].text() and self.lines[-1].hasFocus()
        self._resize(len(items) + beginning)
        for line, item in zip(self.lines, items, strict=False):
            line.show_text(item)

    def set_writable(self, *, writable: bool) -> None:
        self.add.setEnabled(writable)
        for row in self._rows:
            row.setEnabled(writable)

    def _resize(self, count: int) -> None:
        while len(self.lines) > count:
            self.lines.pop()
            self._rows.pop().deleteLater()
        while len(self.lines) < count:
            self._append()

    def _append(self) -> None:
        index = len(self.lines)
        row, line = QWidget(), ValueLine()
        line.setAccessibleName(f"{self.state.key.name}[{index}]")
        line.entered.connect(lambda text: self._enter(index, text))
        remove = SmallButton(self._theme, "close", f"Remove line {index + 1}")
        remove.clicked.connect(lambda: self._enter(index, ""))
        layout = QHBoxLayout(row)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(line, 1)
        layout.addWidget(remove)
        self._column.insertWidget(index, row)
        self.lines.append(line)
        self._rows.append(row)

    def _begin(self) -> None:
        self._append()
        self.lines[-1].setFocus()

    def _enter(self, index: int, text: str) -> None:
        items = list(self.state.value or [])
        if index < len(items):
            items[index : index + 1] = [text] if text else []
        elif text:
            items.append(text)
        if items != list(self.state.value or []):
            self.ask_value(items)
        elif not text:
            self._resize(len(items))


# Control for a path: typed, chosen from a dialog, or one of a few words.

FOLDERS = {
    ("run", "working_dir"),
    ("training", "batch_plan"),
    ("checkpoint", "directory"),
    ("checkpoint", "resume"),
}
"""Keys whose path is a folder."""
_FILTERS = {
    ("run", "recipe"): "Python files (*.py)",
    ("run", "script"): "Python files (*.py)",
    ("extends",): "Run files (*.toml)",
    ("estimate", "config"): "config.json (*.json)",
}


class PathControl(Control):
    """Line with a button that opens a dialog; paths below the document's folder are written relative."""

    def __init__(
        self, theme: Theme, state: FieldState, folder: Callable[[], Path], parent: QWidget | None = None
    ) -> None:
        super().__init__(state, parent)
        self._folder = folder
        self.inner = WordControl(state) if words_of(state.key) else LineControl(state)
        self.inner.asked.connect(self.asked)
        self.inner.refused.connect(self.refused)
        what = "folder" if state.key.path in FOLDERS else "file"
        self.browse = SmallButton(theme, "folder", f"Choose a {what}")
        self.browse.setAccessibleName(f"choose a {what} for {state.key.name}")
        self.browse.clicked.connect(self.open_dialog)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        row.addWidget(self.inner, 1)
        row.addWidget(self.browse)
        self.setFocusProxy(self.inner)

    def show_state(self, state: FieldState) -> None:
        super().show_state(state)
        self.inner.show_state(state)

    def set_writable(self, *, writable: bool) -> None:
        self.inner.set_writable(writable=writable)
        self.browse.setEnabled(writable)

    def open_dialog(self) -> QFileDialog:
        """Open a dialog for the path, which is set when the user accepts."""
        dialog = QFileDialog(self.window(), f"Choose {self.state.key.name}", str(self._folder()))
        if self.state.key.path in FOLDERS:
            dialog.setFileMode(QFileDialog.FileMode.Directory)
        else:
            dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
            chosen = _FILTERS.get(self.state.key.path)
            dialog.setNameFilters([*([chosen] if chosen else []), "All files (*)"])
        dialog.fileSelected.connect(self.take)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()
        return dialog

    def take(self, chosen: str) -> None:
        """Set an absolute path."""
        self.ask_value(written_path(chosen, self._folder()))


def written_path(chosen: str, folder: Path) -> str:
    """Return `chosen` as written in a file of `folder`: relative if it is below it."""
    relative = os.path.relpath(chosen, folder)
    return chosen if relative.startswith("..") else relative
