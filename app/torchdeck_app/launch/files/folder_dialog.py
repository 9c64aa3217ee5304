"""Dialog for the folder of a preset that consists of several files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from torchdeck_app.widgets.panel import GRID, label


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
        self.field.setToolTip("It is made where it is not there; nothing in it is overwritten")
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
