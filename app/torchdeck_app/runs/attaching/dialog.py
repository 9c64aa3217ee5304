"""Dialog that chooses a run of a node to follow from here, and shows the progress."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLabel,
    QLineEdit,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from torchdeck_app.theme.fonts import Type
from torchdeck_app.widgets.panel import GRID, label

LATEST = "latest"
_ABOUT = (
    "A run that another machine has started continues without it. Any of its nodes knows enough to show it "
    "here, to follow it, to stop it and to pull what it made."
)


class AttachDialog(QDialog):
    """Window-modal dialog that connects to nothing itself. Cancel aborts the operation and closes the
    dialog.
    """

    attach_asked = Signal(str, str)
    """Emitted with a node of the inventory and the run: its id, an id prefix, its name, or `latest`."""

    def __init__(self, nodes: Sequence[str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Attach to a run on a node")
        self.setMinimumWidth(60 * GRID)
        self.node = QComboBox()
        self.node.addItems(list(nodes))
        self.node.setAccessibleName("Node")
        self.node.setToolTip("Any node of the run that is in the node inventory")
        self.run = QLineEdit(LATEST)
        self.run.setAccessibleName("Run")
        self.run.setToolTip("Its id, the beginning of it, its name, or latest")
        self._told = label(kind=Type.BODY, role="secondary", wrap=True)
        self._told.setTextFormat(Qt.TextFormat.PlainText)
        self._told.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        self._buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.attach_button = self._buttons.addButton("&Attach", QDialogButtonBox.ButtonRole.ActionRole)
        self.attach_button.setProperty("role", "primary")
        self.attach_button.setDefault(True)
        self.attach_button.clicked.connect(self._ask)
        self._buttons.rejected.connect(self.reject)
        self._lay_out(label(_ABOUT, wrap=True))

    @property
    def told(self) -> str:
        """Return the progress, or why the run is not here."""
        return self._told.text()

    def show_progress(self, what: str) -> None:
        """Show the progress."""
        self._tell(f"{what[:1].upper()}{what[1:]} …", "secondary", busy=True)

    def show_error(self, why: str) -> None:
        """Show why attaching failed."""
        self._tell(f"✕ {why[:1].upper()}{why[1:]}", "error", busy=False)

    def _lay_out(self, about: QLabel) -> None:
        form = QFormLayout()
        form.setHorizontalSpacing(2 * GRID)
        form.setVerticalSpacing(GRID)
        form.addRow("&Node", self.node)
        form.addRow("&Run", self.run)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(2 * GRID)
        column.addWidget(about)
        column.addLayout(form)
        column.addWidget(self._told)
        column.addWidget(self._buttons)

    def _ask(self) -> None:
        self.show_progress(f"asking {self.node.currentText()} for its runs")
        self.attach_asked.emit(self.node.currentText(), self.run.text().strip() or LATEST)

    def _tell(self, text: str, role: str, *, busy: bool) -> None:
        self._told.setText(text)
        if self._told.property("role") != role:
            self._told.setProperty("role", role)
            self._told.style().polish(self._told)
        for control in (self.node, self.run, self.attach_button):
            control.setEnabled(not busy)
