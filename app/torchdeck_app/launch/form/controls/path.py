"""A value that is a path: typed, chosen from a dialog, or one of a few words."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QWidget

from torchdeck_app.launch.form.controls.choice import WordControl
from torchdeck_app.launch.form.controls.control import Control
from torchdeck_app.launch.form.controls.line import LineControl
from torchdeck_app.launch.form.controls.small_button import SmallButton
from torchdeck_app.launch.form.kinds import words_of
from torchdeck_app.launch.form.states import FieldState
from torchdeck_app.theme.theme import Theme

FOLDERS = {
    ("run", "working_dir"),
    ("training", "batch_plan"),
    ("checkpoint", "directory"),
    ("checkpoint", "resume"),
}
"""Keys whose path is a folder's."""
_FILTERS = {
    ("run", "recipe"): "Python files (*.py)",
    ("run", "script"): "Python files (*.py)",
    ("extends",): "Run files (*.toml)",
    ("estimate", "config"): "config.json (*.json)",
}


class PathControl(Control):
    """A line with a button that opens a dialog; what lies below the document's folder is written relative."""

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
        """Ask for a path; it is taken over when the user accepts."""
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
        """Take over an absolute path."""
        self.ask_value(written_path(chosen, self._folder()))


def written_path(chosen: str, folder: Path) -> str:
    """`chosen` as it is written in a file of `folder`: relative to it where it lies below."""
    relative = os.path.relpath(chosen, folder)
    return chosen if relative.startswith("..") else relative
