"""A value that is true or false."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QWidget

from torchdeck_app.launch.form.controls.control import Control
from torchdeck_app.launch.form.states import FieldState


class SwitchControl(Control):
    """A box to check."""

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
