"""Dialog that sets the priority of an entry."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QDialog, QDialogButtonBox, QVBoxLayout, QWidget

from torchdeck_app.widgets.inputs import QuietSpinBox
from torchdeck_app.widgets.panel import GRID, label

MOST = 1_000_000


class PriorityDialog(QDialog):
    """A number; higher ones start first."""

    def __init__(
        self, what: str, priority: int, chosen: Callable[[int], None], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Priority")
        self.number = QuietSpinBox()
        self.number.setAccessibleName("Priority")
        self.number.setRange(-MOST, MOST)
        self.number.setValue(priority)
        self.number.selectAll()
        buttons = QDialogButtonBox(
            QDialogButtonBox.StandardButton.Save | QDialogButtonBox.StandardButton.Cancel
        )
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        self.accepted.connect(lambda: chosen(self.number.value()))
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(GRID)
        column.addWidget(label(f"Priority of {what}. Higher numbers start first.", wrap=True))
        column.addWidget(self.number)
        column.addWidget(buttons)
        self.resize(360, self.sizeHint().height())
