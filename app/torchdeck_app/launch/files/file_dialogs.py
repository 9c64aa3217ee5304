"""Dialogs for the folder of a preset, and for keys that were changed on disk and in the document."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QButtonGroup,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QGridLayout,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QRadioButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from torchdeck.config.toml.merge import Conflict, Merge, Side, as_shown
from torchdeck.shown_text import shown
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.widgets.labels import control_text, plain_tip
from torchdeck_app.widgets.panel import GRID, label


class MergeDialog(QDialog):
    """Window-modal dialog; nothing is changed until Merge is pressed."""

    merged = Signal(object)
    """Emitted with a dict: path of each conflict → `mine` or `theirs` (a `Signal(dict)` supports only string
    keys).
    """

    def __init__(self, name: str, merge: Merge, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(shown(f"Merge {name}"))
        self.resize(640, 360)
        self._conflicts = merge.conflicts
        self._groups: list[QButtonGroup] = []
        layout = QVBoxLayout(self)
        layout.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        layout.setSpacing(GRID)
        count = "One key was" if len(merge.conflicts) == 1 else f"{len(merge.conflicts)} keys were"
        layout.addWidget(label(f"{count} changed both here and on disk.", Type.HEADING, wrap=True))
        if merge.taken:
            names = ", ".join(item.name for item in merge.taken)
            text = label(f"Taken from disk (changed only there): {names}", role="secondary", wrap=True)
            text.setTextFormat(Qt.TextFormat.PlainText)
            layout.addWidget(text)
        scroll = QScrollArea()
        scroll.setAccessibleName("Keys that differ")
        scroll.setProperty("role", "scrolled")
        scroll.setWidgetResizable(True)
        scroll.setWidget(self._table())
        layout.addWidget(scroll, 1)
        self.buttons = QDialogButtonBox()
        self.merge_button = self.buttons.addButton("&Merge", QDialogButtonBox.ButtonRole.AcceptRole)
        self.merge_button.setProperty("role", "primary")
        self.buttons.addButton("&Cancel", QDialogButtonBox.ButtonRole.RejectRole)
        self.buttons.accepted.connect(self._accept)
        self.buttons.rejected.connect(self.reject)
        layout.addWidget(self.buttons)

    def choose(self, index: int, side: Side) -> None:
        """Choose a side of one conflict."""
        self._groups[index].buttons()[0 if side == "mine" else 1].setChecked(True)

    def _table(self) -> QWidget:
        inside = QWidget()
        grid = QGridLayout(inside)
        grid.setContentsMargins(GRID, GRID, GRID, GRID)
        grid.setHorizontalSpacing(2 * GRID)
        grid.setVerticalSpacing(GRID)
        for column, title in enumerate(("Key", "Before", "Here", "On disk")):
            grid.addWidget(label(title, role="secondary"), 0, column)
        for row, conflict in enumerate(self._conflicts, 1):
            self._add(grid, row, conflict)
        grid.setColumnStretch(2, 1)
        grid.setColumnStretch(3, 1)
        grid.setRowStretch(len(self._conflicts) + 1, 1)
        return inside

    def _add(self, grid: QGridLayout, row: int, conflict: Conflict) -> None:
        for column, text in ((0, conflict.name), (1, as_shown(conflict.base))):
            cell = label(text, Type.MONO if column else Type.BODY)
            cell.setTextFormat(Qt.TextFormat.PlainText)
            grid.addWidget(cell, row, column)
        group = QButtonGroup(self)
        for column, side, value in ((2, "here", conflict.mine), (3, "on disk", conflict.theirs)):
            button = QRadioButton(control_text(as_shown(value, 40)))
            button.setFont(font(Type.MONO))
            button.setToolTip(plain_tip(as_shown(value, 2000)))
            button.setAccessibleName(f"{conflict.name} as {side}: {as_shown(value)}")
            group.addButton(button)
            grid.addWidget(button, row, column)
        group.buttons()[0].setChecked(True)
        self._groups.append(group)

    def _accept(self) -> None:
        self.accept()
        sides = ["mine" if group.buttons()[0].isChecked() else "theirs" for group in self._groups]
        self.merged.emit(dict(zip((item.path for item in self._conflicts), sides, strict=True)))


class FolderDialog(QDialog):
    """Window-modal dialog; it writes nothing."""

    folder_chosen = Signal(object)
    """Emitted with an absolute Path."""

    def __init__(self, names: Sequence[str], suggested: Path, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Write files")
        self.setMinimumWidth(480)
        self.field = QLineEdit(str(suggested))
        self.field.setAccessibleName("Folder")
        self.field.setToolTip("Created if it does not exist; no file in it is overwritten")
        browse = QPushButton("&Browse …")
        browse.setAccessibleName("Browse")
        browse.setToolTip("Choose a folder")
        browse.clicked.connect(self._browse)
        row = QHBoxLayout()
        row.addWidget(self.field, 1)
        row.addWidget(browse)
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.write_button = self.buttons.addButton("&Write and open", QDialogButtonBox.ButtonRole.AcceptRole)
        self.write_button.setProperty("role", "primary")
        self.buttons.accepted.connect(self._accept)
        self.buttons.rejected.connect(self.reject)
        self.field.textChanged.connect(lambda text: self.write_button.setEnabled(bool(text.strip())))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        layout.setSpacing(GRID)
        caption = label(f"&Folder for {' and '.join(names)}", wrap=True)
        caption.setBuddy(self.field)
        layout.addWidget(caption)
        layout.addLayout(row)
        layout.addWidget(self.buttons)

    def _accept(self) -> None:
        self.accept()
        self.folder_chosen.emit(Path(self.field.text().strip()).expanduser().absolute())

    def _browse(self) -> None:
        dialog = QFileDialog(self, "Choose a folder", self.field.text())
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.fileSelected.connect(self.field.setText)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()
