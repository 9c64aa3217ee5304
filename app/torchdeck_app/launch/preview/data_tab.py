"""Distribution of data among ranks, and its balance."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QPushButton, QToolButton, QVBoxLayout, QWidget

from torchdeck.plan.preview import Preview
from torchdeck.plan.preview.data_share import DataPreview, Policy, passes
from torchdeck.plan.preview.microbatches import MicrobatchTable, microbatch_table
from torchdeck.quantities import counted
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.preview.microbatch_map import HeatMap
from torchdeck_app.launch.preview.preview_tab import Column, Figure, Latest, PreviewTab, once_traced
from torchdeck_app.launch.preview.rank_bars import RankBars
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.chart import Chart
from torchdeck_app.widgets.flow import Flow
from torchdeck_app.widgets.inputs import QuietSpinBox
from torchdeck_app.widgets.panel import GRID, Panel, label

_ORDERS = {"seeded order": "a seeded order", "batch plan": "a batch plan"}
_HINT = "Point at a cell, or move with the arrow keys, for its value."


class DataView(PreviewTab):
    """Data tab: microbatches over ranks, data per rank, and the arithmetic of a step."""

    change_asked = Signal(dict)
    """Emitted with dotted keys of run.toml and their new values."""
    title = "Data"
    icon = "data"

    def __init__(self, theme: Theme, operations: Operations, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self._asked: tuple[int, int, int] | None = None
        self.choice, self.heat_map, self.bars = StepChoice(), HeatMap(theme), RankBars(theme)
        self._tables: Latest[MicrobatchTable | None] = Latest(operations, "laying out microbatches", self)
        self._tables.answered.connect(self._show_table)
        self._tables.failed.connect(lambda error: self._say(str(error)))
        self._tables.waiting.connect(lambda: self._say("Laying out microbatches …"))
        self._tables.settled.connect(lambda: self._say(self.heat_map.accessibleDescription() or _HINT))
        self.imbalance, self.padding = Figure("imbalance"), Figure("padding")
        self.steps, self.samples = Figure("steps"), Figure("samples")
        self.choice.chosen.connect(lambda _step: self._ask())
        self.readout = label(_HINT, Type.SMALL, "secondary", wrap=True)
        self.bars_readout = label(" ", Type.SMALL, "secondary")
        self.policies = PolicyTable(lambda name: self.change_asked.emit({"training.balance": name}))
        self.compared = label(role="secondary", wrap=True)
        self.arithmetic = QVBoxLayout()
        self.add_content(self._laid_out())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        if self._preview is not None and self._preview.data is not None and self.isVisible():
            self._ask()

    def missing(self, preview: Preview) -> str:
        if preview.data is not None:
            return ""
        if preview.plan.batch is None:
            return (
                "A script reads its own data, which is unknown before it runs. For a recipe, this tab "
                "shows which rank reads what, and how balanced it is."
            )
        return once_traced(preview, "How much each rank reads")

    def fill(self, preview: Preview) -> None:
        data = preview.data
        if data is None:
            return
        self._show_figures(data)
        self.bars.set_data(data)
        self._policies_panel.setVisible(bool(data.policies))
        self.policies.show_policies(data.policies)
        if data.policies:
            looked = data.policies[0].steps
            whole = "all steps" if looked == data.steps else f"the first {counted(looked, 'step')}"
            self.compared.setText(
                f"Tokens ÷ their mean, over {whole}: 1 is balanced. "
                "In each step all ranks wait for the slowest."
            )
        self._show_arithmetic(preview.arithmetic)
        self._asked = None
        self._ask()

    def clear(self) -> None:
        self._asked = None
        self._tables.forget()

    def _laid_out(self) -> Column:
        column = Column()
        figures = Flow(across=3 * GRID)
        for figure in (self.imbalance, self.padding, self.steps, self.samples):
            figures.add(figure)
        column.add(figures)
        cells = Panel("Microbatches")
        cells.header.addWidget(self.choice)
        cells.add(self.heat_map)
        cells.add(self.readout)
        column.add(cells)
        bars = Panel("What each rank reads in the whole run")
        bars.add(self.bars)
        bars.add(self.bars_readout)
        column.add(bars)
        self._policies_panel = Panel("Comparison of balance policies")
        self._policies_panel.add(self.policies)
        self._policies_panel.add(self.compared)
        column.add(self._policies_panel)
        step = Panel("Arithmetic of a step")
        inside = QWidget()
        self.arithmetic.setContentsMargins(0, 0, 0, 0)
        inside.setLayout(self.arithmetic)
        step.add(inside)
        self._arithmetic_panel = step
        column.add(step)
        _read_out(self.heat_map, self.readout, _HINT)
        _read_out(self.bars, self.bars_readout, "Dashed: the mean.")
        return column

    def _show_figures(self, data: DataPreview) -> None:
        self.imbalance.show_number(
            f"{data.imbalance:.3f}",
            f"fullest rank ÷ mean, {data.unit}",
            f"{data.imbalance:.9g}; 1 is perfectly balanced",
        )
        self.padding.setVisible(data.padding is not None)
        if data.padding is not None:
            share = f"{data.padding * 100:.1f} %"
            self.padding.show_number(share, "of all tokens is padding", f"{data.padding:.9g}")
        self.steps.show_number(
            f"{data.steps:,}",
            f"steps, {passes(data.epochs)} of {data.steps_per_epoch:,}",
            f"{data.epochs:.9g} epochs",
        )
        self.samples.show_number(f"{data.size:,}", f"samples, in {_ORDERS.get(data.source, data.source)}")

    def _show_arithmetic(self, lines: tuple[str, ...]) -> None:
        self._arithmetic_panel.setVisible(bool(lines))
        while self.arithmetic.count() < len(lines):
            text = label(wrap=True)
            text.setTextFormat(Qt.TextFormat.PlainText)
            text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            self.arithmetic.addWidget(text)
        for index in range(self.arithmetic.count()):
            item = self.arithmetic.itemAt(index)
            widget = None if item is None else item.widget()
            if isinstance(widget, QLabel):
                widget.setVisible(index < len(lines))
                line = lines[index] if index < len(lines) else ""
                widget.setProperty("role", "warning" if line.startswith("warning") else "")
                widget.style().polish(widget)
                widget.setText(line)

    def _ask(self) -> None:
        preview = self._preview
        if preview is None or preview.data is None:
            return
        steps = self.heat_map.steps_in_sight(preview.config.training.accumulation)
        self.choice.set_range(preview.data.steps, steps)
        asked = (id(preview), self.choice.step, steps)
        if asked != self._asked:
            self._asked = asked
            first = self.choice.step
            self._tables.ask(lambda: microbatch_table(preview, first, steps))

    def _show_table(self, table: MicrobatchTable | None) -> None:
        if table is not None:
            self.heat_map.set_table(table)

    def _say(self, text: str) -> None:
        self.readout.setText(text)


def _read_out(chart: Chart, readout: QLabel, otherwise: str) -> None:
    readout.setTextFormat(Qt.TextFormat.PlainText)
    readout.setText(otherwise)
    chart.pointed.connect(lambda text: readout.setText(text or otherwise))


class StepChoice(QWidget):
    """Choice of the first shown step, from 0."""

    chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._together = 1
        self.field = QuietSpinBox()
        self.field.setAccessibleName("First step shown")
        self.field.setToolTip("First step shown; steps count from 0")
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
        """Return the first shown step."""
        return self.field.value()

    def set_range(self, steps: int, together: int) -> None:
        """Set the number of `steps` of the run, of which `together` are visible."""
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


# Balance of the ranks under each policy of a batch plan, with a button that applies it.

_MEANS = {
    "none": "in the plan's order",
    "tokens": "equal tokens per rank",
    "attention": "equal attention per rank",
}
_HEADS = ("Balance", "", "Slowest rank per step", "Fullest rank in total", "")


class PolicyTable(QWidget):
    """Table with one row per policy."""

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
        """Show policies; existing rows stay, and keep the focus."""
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
