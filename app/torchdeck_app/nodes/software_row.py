"""What software a machine has: a few words each, under what they are of."""

from __future__ import annotations

from PySide6.QtWidgets import QGridLayout, QWidget

from torchdeck.contract.inventory import InterpreterFacts
from torchdeck.nodes.software import SoftwareFacts
from torchdeck_app.theme.fonts import Type
from torchdeck_app.widgets.elided_label import ElidedLabel
from torchdeck_app.widgets.panel import GRID, label
from torchdeck_app.widgets.tooltip import plain_tip

_NAMES = ("System", "Kernel", "Python", "torch", "NVIDIA driver")
_SHARES = (5, 5, 2, 3, 3)
"""How much of the width each gets."""
_LOOKING = "…"
_NONE = "none"


class SoftwareRow(QWidget):
    """System, kernel, Python, torch and driver side by side."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._values = {name: ElidedLabel() for name in _NAMES}
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, GRID)
        grid.setHorizontalSpacing(2 * GRID)
        grid.setVerticalSpacing(0)
        for column, (name, value) in enumerate(self._values.items()):
            grid.addWidget(label(name, Type.SMALL, "secondary"), 0, column)
            grid.addWidget(value, 1, column)
            grid.setColumnStretch(column, _SHARES[column])
            self._say(name, _LOOKING)

    def show_software(self, facts: SoftwareFacts) -> None:
        """The system's own."""
        self._say("System", facts.system)
        self._say("Kernel", f"{facts.kernel}, {facts.machine}")
        driver = facts.driver or _NONE
        self._say("NVIDIA driver", driver, "" if facts.driver else "No driver of NVIDIA's was found.")

    def show_interpreter(self, facts: InterpreterFacts) -> None:
        """Of the Python that runs use."""
        self._say("Python", facts.python or "not found", facts.executable)
        self._say("torch", facts.torch or _NONE)

    def _say(self, name: str, text: str, exact: str = "") -> None:
        value = self._values[name]
        value.setText(text)
        value.setToolTip(plain_tip(exact or text))
        value.setAccessibleName(f"{name}: {text}")
