"""Strip below the grid: the selection and its facts."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from torchdeck_app.launch.preview.placement.facts import Fact
from torchdeck_app.launch.preview.text import line_label
from torchdeck_app.theme.fonts import Type
from torchdeck_app.widgets.labels import ElidedLabel, plain_tip
from torchdeck_app.widgets.panel import GRID, Panel

_FACTS = 4


class SpotDetails(Panel):
    """Panel with a title, a button that switches the selection on or off, and four facts. Its size never
    changes.
    """

    switch_pressed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent=parent)
        self.setAccessibleName("What is selected")
        self._title = line_label(Type.HEADING)
        self.switch = QPushButton("Switch off")
        self.switch.setToolTip("Use it in the run, or not (Space)")
        self.switch.clicked.connect(self.switch_pressed)
        top = QHBoxLayout()
        top.addWidget(self._title, 1)
        top.addWidget(self.switch)
        grid = QGridLayout()
        grid.setHorizontalSpacing(2 * GRID)
        grid.setVerticalSpacing(0)
        self._names = [self._cell(grid, 0, column, "secondary") for column in range(_FACTS)]
        self._values = [self._cell(grid, 1, column, "") for column in range(_FACTS)]
        body = QWidget()
        column = QVBoxLayout(body)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID // 2)
        column.addLayout(top)
        column.addLayout(grid)
        self.add(body)
        kept = self.switch.sizePolicy()
        kept.setRetainSizeWhenHidden(True)
        self.switch.setSizePolicy(kept)
        self.facts: tuple[Fact, ...] = ()
        """Return what is shown now."""
        self.show_run("", ())

    @property
    def title(self) -> str:
        return self._title.text()

    @property
    def values(self) -> tuple[str, ...]:
        """Return what is shown now."""
        return tuple(value.text() for value in self._values)

    def show_run(self, title: str, facts: tuple[Fact, ...]) -> None:
        """Show the whole run, for an empty selection."""
        self._title.setText(title)
        self._title.setToolTip(plain_tip(title))
        self.switch.hide()
        self.show_facts(facts)

    def show_spot(self, title: str, facts: tuple[Fact, ...], *, can_switch: bool, is_on: bool) -> None:
        """Show a node or a device with its rank."""
        self._title.setText(title)
        self._title.setToolTip(plain_tip(title))
        self.switch.setVisible(can_switch)
        self.switch.setText("Switch off" if is_on else "Switch on")
        self.show_facts(facts)

    def show_facts(self, facts: tuple[Fact, ...]) -> None:
        """Show up to four facts."""
        self.facts = facts
        for at, (name, value) in enumerate(zip(self._names, self._values, strict=True)):
            fact = facts[at] if at < len(facts) else Fact("", "")
            name.setText(fact.name)
            value.setText(fact.value)
            value.setToolTip(plain_tip(fact.more or fact.value))
            value.setAccessibleName(f"{fact.name}: {fact.value}. {fact.more}" if fact.name else "")

    def _cell(self, grid: QGridLayout, row: int, column: int, role: str) -> ElidedLabel:
        made = line_label(Type.SMALL if row == 0 else Type.BODY, role)
        grid.addWidget(made, row, column)
        grid.setColumnStretch(column, 3 if column < 2 else 2)
        return made
