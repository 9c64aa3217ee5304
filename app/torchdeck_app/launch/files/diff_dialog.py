"""Changes since a run: its frozen run file against the document."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QDialog, QDialogButtonBox, QHBoxLayout, QVBoxLayout, QWidget

from torchdeck.shown_text import shown
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.files.diff_view import DiffView
from torchdeck_app.launch.files.run_texts import RunText, RunTitle, run_text, run_titles
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.panel import GRID, label


class DiffDialog(QDialog):
    """Dialog that reads the runs off the GUI thread."""

    def __init__(
        self,
        theme: Theme,
        operations: Operations,
        home: Path,
        text: str,
        name: str,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("What changed since a run")
        self.resize(760, 520)
        self._operations, self._home = operations, home
        self._text, self._name = text, name
        self._wanted = ""
        self.chooser = QComboBox()
        self.chooser.setAccessibleName("Run")
        self.chooser.setToolTip("The run to compare with")
        self.chooser.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.chooser.activated.connect(lambda _index: self._read_chosen())
        self.view = DiffView(theme)
        caption = label("Since &run")
        caption.setBuddy(self.chooser)
        row = QHBoxLayout()
        row.setSpacing(GRID)
        row.addWidget(caption)
        row.addWidget(self.chooser, 1)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        layout.setSpacing(GRID)
        layout.addLayout(row)
        layout.addWidget(self.view, 1)
        layout.addWidget(buttons)

    def open_for(self, run_id: str = "") -> None:
        """Show the dialog with `run_id`, or the newest run."""
        self._wanted = run_id
        self.view.summary.setText("Looking for runs …")
        self._operations.run(
            "looking for runs",
            lambda *_: run_titles(self._home, wanted=run_id),
            done=self._found,
            failed=self._failed,
        )
        self.open()

    def _found(self, titles: tuple[RunTitle, ...]) -> None:
        for title in titles:
            self.chooser.addItem(shown(str(title)), title.run_id)
            self.chooser.setItemData(
                self.chooser.count() - 1, plain_tip(title.run_id), Qt.ItemDataRole.ToolTipRole
            )
        if not titles:
            self.chooser.setEnabled(False)
            self.view.summary.setText("There are no runs yet: launch one, and its run file is kept with it.")
            return
        self.chooser.setCurrentIndex(max(0, self.chooser.findData(self._wanted)))
        self._read_chosen()

    def _read_chosen(self) -> None:
        self._read(str(self.chooser.currentData()))

    def _read(self, run_id: str) -> None:
        self._wanted = run_id
        self._operations.run(
            "reading a run", lambda *_: run_text(self._home, run_id), done=self._show, failed=self._failed
        )

    def _show(self, found: RunText) -> None:
        if found.run_id == self._wanted:
            self.view.show_texts(found.text, self._text, ("Run", self._name or "Now"))

    def _failed(self, error: Exception) -> None:
        self.view.summary.setText(f"The run's file cannot be read: {error}")
