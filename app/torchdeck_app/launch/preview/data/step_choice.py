"""Which steps are in sight: a field, and buttons to the steps before and after."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QToolButton, QWidget

from torchdeck_app.launch.preview.parts.calm_spin_box import CalmSpinBox
from torchdeck_app.widgets.panel import GRID, label


class StepChoice(QWidget):
    """The first step that is shown, from 0."""

    chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._together = 1
        self.field = CalmSpinBox()
        self.field.setAccessibleName("First step that is shown")
        self.field.setToolTip("First step that is shown; steps count from 0")
        self.field.setGroupSeparatorShown(True)
        self.field.setKeyboardTracking(False)
        self.field.setMinimumWidth(88)
        self.field.valueChanged.connect(self._changed)
        self.of = label(role="secondary")
        self.before, self.after = (
            self._button("‹", "Steps before these", -1),
            self._button("›", "Steps after these", 1),
        )
        caption = label("From &step", role="secondary")
        caption.setBuddy(self.field)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID)
        for widget in (caption, self.before, self.field, self.after, self.of):
            row.addWidget(widget)

    @property
    def step(self) -> int:
        """The first one."""
        return self.field.value()

    def set_range(self, steps: int, together: int) -> None:
        """A run of `steps` steps, of which `together` are in sight."""
        self._together = max(1, together)
        self.field.blockSignals(True)  # noqa: FBT003 - Qt's own signature
        self.field.setRange(0, max(0, steps - 1))
        self.field.setSingleStep(1)
        self.field.blockSignals(False)  # noqa: FBT003 - Qt's own signature
        self.of.setText(f"of {steps:,}")
        self._enable()

    def _button(self, text: str, what: str, direction: int) -> QToolButton:
        button = QToolButton()
        button.setText(text)
        button.setAccessibleName(what)
        button.setToolTip(what)
        button.clicked.connect(lambda: self.field.setValue(self.step + direction * self._together))
        return button

    def _changed(self, step: int) -> None:
        self._enable()
        self.chosen.emit(step)

    def _enable(self) -> None:
        self.before.setEnabled(self.step > 0)
        self.after.setEnabled(self.step + self._together <= self.field.maximum())
