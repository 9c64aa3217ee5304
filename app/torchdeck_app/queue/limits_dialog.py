"""Dialog with the limits of the queue: CPU slots, runs of a user, runs with a tag."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from PySide6.QtWidgets import QDialog, QDialogButtonBox, QFormLayout, QLineEdit, QVBoxLayout, QWidget

from torchdeck.queue.state import QueueLimits
from torchdeck_app.widgets.help import ErrorLine
from torchdeck_app.widgets.inputs import QuietSpinBox
from torchdeck_app.widgets.panel import GRID, label

MOST = 10_000
NO_LIMIT = -1


class LimitsDialog(QDialog):
    """Form with the limits; an invalid one is reported in place."""

    def __init__(
        self,
        limits: QueueLimits,
        save: Callable[[Callable[[QueueLimits], QueueLimits]], None],
        parent: QWidget | None = None,
    ) -> None:
        """Show `limits`; `save` gets the change of the limits."""
        super().__init__(parent)
        self.setWindowTitle("Limits of the queue")
        self._save = save
        self.slots = _number("CPU runs per machine", 0, limits.default_slots)
        self.nodes = _line("CPU runs on single machines", "gpu1=2, gpu2=4", limits.slots)
        self.user = _number(
            "Runs per user", NO_LIMIT, NO_LIMIT if limits.per_user is None else limits.per_user
        )
        self.user.setSpecialValueText("no limit")
        self.tags = _line("Runs per tag", "sweep=8, nightly=1", limits.per_tag)
        self.error = ErrorLine()
        form = QFormLayout()
        form.setSpacing(GRID)
        for field in (self.slots, self.nodes, self.user, self.tags):
            form.addRow(field.accessibleName(), field)
        buttons = QDialogButtonBox(
            QDialogButtonBox.StandardButton.Save | QDialogButtonBox.StandardButton.Cancel
        )
        buttons.accepted.connect(self._accept)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(2 * GRID)
        column.addWidget(label("Runs of the queue at once. GPU runs take no CPU slot.", role="secondary"))
        column.addLayout(form)
        column.addWidget(self.error)
        column.addWidget(buttons)
        self.resize(480, self.sizeHint().height())

    def _accept(self) -> None:
        try:
            nodes, tags = parse_numbers(self.nodes.text()), parse_numbers(self.tags.text())
        except ValueError as error:
            self.error.say(str(error))
            return
        slots = self.slots.value()
        user = None if self.user.value() == NO_LIMIT else self.user.value()
        self._save(
            lambda before: replace(before, slots=nodes, default_slots=slots, per_user=user, per_tag=tags)
        )
        self.accept()


def parse_numbers(text: str) -> dict[str, int]:
    """Return the numbers of `gpu1=2, gpu2=4`. Raises ValueError."""
    found = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, _, number = (each.strip() for each in part.rpartition("="))
        if not name or not number.isdecimal() or not number.isascii() or int(number) > MOST:
            raise ValueError(f"“{part}” is not a name with a number. Enter for example name=2.")
        found[name] = int(number)
    return found


def _number(name: str, least: int, value: int) -> QuietSpinBox:
    box = QuietSpinBox()
    box.setAccessibleName(name)
    box.setRange(least, MOST)
    box.setValue(value)
    return box


def _line(name: str, example: str, numbers: Mapping[str, int]) -> QLineEdit:
    line = QLineEdit(", ".join(f"{each}={number}" for each, number in numbers.items()))
    line.setAccessibleName(name)
    line.setPlaceholderText(example)
    return line
