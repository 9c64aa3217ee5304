"""Choice of what is run: a recipe, a script or a module."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QWidget

from torchdeck_app.launch.form.field_row import CONTROL, MARK, NAME, RESET, UNIT
from torchdeck_app.launch.form.form_edits import KINDS
from torchdeck_app.launch.form.value_controls import QuietBox
from torchdeck_app.widgets.panel import label


class KindRow(QWidget):
    """Row for a choice that is written only together with the value it selects."""

    chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.box = QuietBox()
        self.box.addItems([kind.capitalize() for kind in KINDS])
        self.box.setAccessibleName("kind of program")
        self.box.setToolTip(
            "A recipe defines model, data and loss; a script or module is started as torchrun does."
        )
        self.box.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.box.setMinimumWidth(CONTROL)
        self.box.activated.connect(lambda index: self.chosen.emit(KINDS[index]))
        row = QHBoxLayout(self)
        row.setContentsMargins(MARK, 0, UNIT + RESET, 0)
        row.setSpacing(0)
        name = label("What to run")
        name.setFixedWidth(NAME)
        row.addWidget(name)
        row.addWidget(self.box, 1)

    def set_writable(self, *, writable: bool) -> None:
        """Set whether it can be changed."""
        self.box.setEnabled(writable)

    def show_kind(self, kind: str) -> None:
        """Show the current choice."""
        self.box.setCurrentIndex(KINDS.index(kind))
