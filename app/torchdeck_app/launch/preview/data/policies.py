"""How even the ranks would be under each balance of a batch plan, and a button that takes it."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QLabel, QPushButton, QWidget

from torchdeck.plan.preview.data import Policy
from torchdeck_app.theme.fonts import Type
from torchdeck_app.widgets.panel import GRID, label

_MEANS = {
    "none": "in the plan's order",
    "tokens": "as many tokens each",
    "attention": "as much attention each",
}
_HEADS = ("Balance", "", "Slowest of a step", "Fullest in all", "")


class PolicyTable(QWidget):
    """A row a policy."""

    def __init__(self, asked: Callable[[str], None], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._asked = asked
        self._shown: tuple[Policy, ...] = ()
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(3 * GRID)
        self._grid.setVerticalSpacing(GRID // 2)
        self._grid.setColumnStretch(1, 1)
        self.buttons: dict[str, QPushButton] = {}

    def show_policies(self, policies: tuple[Policy, ...]) -> None:
        """Show them; what is shown already stays, and keeps the focus."""
        if policies == self._shown:
            return
        self._shown = policies
        self._clear()
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        for column, head in enumerate(_HEADS):
            text = label(head, Type.SMALL, "secondary")
            self._grid.addWidget(text, 0, column, right if column in (2, 3) else Qt.AlignmentFlag(0))
        for row, policy in enumerate(policies, 1):
            self._grid.addWidget(label(policy.name), row, 0)
            self._grid.addWidget(label(_MEANS.get(policy.name, ""), role="secondary", wrap=True), row, 1)
            self._grid.addWidget(_number(policy.slowest), row, 2, right)
            self._grid.addWidget(_number(policy.imbalance), row, 3, right)
            self._grid.addWidget(self._chooser(policy), row, 4)

    def _chooser(self, policy: Policy) -> QWidget:
        if policy.chosen:
            return label("✓ chosen", role="secondary")
        button = QPushButton("Use")
        button.setAccessibleName(f"Use balance {policy.name}")
        button.setToolTip(f'Set training.balance = "{policy.name}"')
        button.clicked.connect(lambda: self._asked(policy.name))
        self.buttons[policy.name] = button
        return button

    def _clear(self) -> None:
        self.buttons.clear()
        while self._grid.count():
            item = self._grid.takeAt(0)
            widget = None if item is None else item.widget()
            if widget is not None:
                widget.deleteLater()


def _number(value: float) -> QLabel:
    made = label(f"{value:.3f}")
    made.setToolTip(f"{value:.9g}")
    return made
