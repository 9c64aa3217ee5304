"""Whether a recipe, a script or a module is run: which field for it the form shows."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QWidget

from torchdeck_app.launch.form.controls.choice import QuietBox
from torchdeck_app.launch.form.field_row import CONTROL, MARK, NAME, RESET, UNIT
from torchdeck_app.launch.form.groups import KINDS
from torchdeck_app.widgets.panel import label


class KindRow(QWidget):
    """A choice that is written only with what is then named."""

    chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.box = QuietBox()
        self.box.addItems([kind.capitalize() for kind in KINDS])
        self.box.setAccessibleName("what kind of thing is run")
        self.box.setToolTip(
            "A recipe says model, data and loss; a script or module is started as torchrun would."
        )
        self.box.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.box.setMinimumWidth(CONTROL)
        self.box.activated.connect(lambda index: self.chosen.emit(KINDS[index]))
        row = QHBoxLayout(self)
        row.setContentsMargins(MARK, 0, UNIT + RESET, 0)
        row.setSpacing(0)
        name = label("kind")
        name.setFixedWidth(NAME)
        row.addWidget(name)
        row.addWidget(self.box, 1)

    def set_writable(self, *, writable: bool) -> None:
        """Whether it can be chosen."""
        self.box.setEnabled(writable)

    def show_kind(self, kind: str) -> None:
        """Show which it is."""
        self.box.setCurrentIndex(KINDS.index(kind))
