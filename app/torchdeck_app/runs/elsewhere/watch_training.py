"""Watching a training that Torchdeck did not start: chosen in a dialog, begun in a worker."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QLabel, QLineEdit, QPushButton, QWidget

from torchdeck.use_cases.elsewhere.watch import watch_training
from torchdeck_app.bridge.worker_ui import WorkerUi
from torchdeck_app.runs.elsewhere.asked_run import AskedRun, FoundRun, RunDialog
from torchdeck_app.widgets.panel import GRID

HERE = "This machine"
_ABOUT = (
    "Shows a training that was started without Torchdeck, with its metrics, checkpoints and log. "
    "It is only read: nothing is written to its folder, and the training is not controlled."
)


class WatchedTrainings(AskedRun["WatchDialog"]):
    """Watches folders and processes."""

    def make_dialog(self, nodes: Sequence[str]) -> WatchDialog:
        """Return the dialog; this machine can always be chosen."""
        return WatchDialog(nodes, self.window())

    def begin(self, dialog: WatchDialog) -> None:
        """Watch."""
        place, pid = dialog.place, dialog.pid

        def call(ui: WorkerUi) -> FoundRun:
            return FoundRun(watch_training(place, pid, ui, home=self._logins.home).layout.root.name)

        dialog.show_progress("looking at it")
        self.run(dialog, f"watching {place or f'process {pid}'}", call)


class WatchDialog(RunDialog):
    """Dialog that asks for the folder and process of a training."""

    def __init__(self, nodes: Sequence[str], parent: QWidget | None = None) -> None:
        super().__init__("Watch a training", _ABOUT, "&Watch", [HERE, *nodes], parent)
        self.folder = QLineEdit()
        self.folder.setAccessibleName("Folder")
        self.folder.setPlaceholderText("Folder in which the training writes")
        self.browse = QPushButton("&Browse…")
        self.browse.setAccessibleName("Browse for the folder")
        self.browse.clicked.connect(self._browse)
        self.process = QLineEdit()
        self.process.setAccessibleName("Process ID")
        self.process.setToolTip("Its memory is shown, with that of all that it starts")
        self.process.setPlaceholderText("Optional: the watch ends with it")
        place = QHBoxLayout()
        place.setSpacing(GRID)
        place.addWidget(self.folder, 1)
        place.addWidget(self.browse)
        folder = QLabel("&Folder")
        folder.setBuddy(self.folder)
        self.form.addRow(folder, place)
        self.form.addRow("&Process ID", self.process)
        self.node.currentIndexChanged.connect(lambda _index: self.enable(busy=False))
        for field in (self.folder, self.process):
            field.textChanged.connect(lambda _text: self.enable(busy=False))
        self.enable(busy=False)
        self.folder.setFocus()

    @property
    def place(self) -> str:
        """`DIR` or `NODE:DIR`, possibly empty."""
        folder = self.folder.text().strip()
        return folder if self._is_here else f"{self.node.currentText()}:{folder}"

    @property
    def pid(self) -> int | None:
        """The process, on this machine only; None if there is no number."""
        text = self.process.text().strip()
        return int(text) if self._is_here and text.isascii() and text.isdecimal() else None

    def enable(self, *, busy: bool) -> None:
        """Processes and folders can be chosen on this machine alone."""
        self.browse.setEnabled(self._is_here and not busy)
        self.process.setEnabled(self._is_here and not busy)
        for field in (self.node, self.folder):
            field.setEnabled(not busy)
        named = bool(self.folder.text().strip()) or self.pid is not None
        self.start_button.setEnabled(named and not busy)

    @property
    def _is_here(self) -> bool:
        return self.node.currentIndex() == 0

    def _browse(self) -> None:
        chosen = QFileDialog.getExistingDirectory(self, "Folder of the training", str(Path.home()))
        if chosen:
            self.folder.setText(chosen)
