"""Who reads what, and how even that is."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from torchdeck.plan.preview import Preview
from torchdeck.plan.preview.data import DataPreview
from torchdeck.plan.preview.data_lines import counted, passes
from torchdeck.plan.preview.microbatches import MicrobatchTable, microbatch_table
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.preview.data.heat_map import HeatMap
from torchdeck_app.launch.preview.data.policies import PolicyTable
from torchdeck_app.launch.preview.data.rank_bars import RankBars
from torchdeck_app.launch.preview.data.step_choice import StepChoice
from torchdeck_app.launch.preview.parts.figure import Figure
from torchdeck_app.launch.preview.parts.latest import Latest
from torchdeck_app.launch.preview.parts.sentences import once_traced
from torchdeck_app.launch.preview.parts.tab import Column, PreviewTab
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.chart import Chart
from torchdeck_app.widgets.flow import Flow
from torchdeck_app.widgets.panel import GRID, Panel, label

_ORDERS = {"seeded order": "a seeded order", "batch plan": "a batch plan"}
_HINT = "Point at a cell, or move with the arrow keys, for its value."


class DataView(PreviewTab):
    """Microbatches over ranks, what each rank reads, and what the arithmetic of a step is."""

    change_asked = Signal(dict)
    """Keys of run.toml, dotted, to their new values."""
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
                "A script reads its data itself: what it reads is not known before it runs. "
                "Runs of a recipe show here which rank reads what, and how even that is."
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
                f"Tokens ÷ their mean, over {whole}: 1 is even. In each step all ranks wait for the slowest."
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
        self._policies_panel = Panel("How even each balance would be")
        self._policies_panel.add(self.policies)
        self._policies_panel.add(self.compared)
        column.add(self._policies_panel)
        step = Panel("The arithmetic of a step")
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
            f"{data.imbalance:.9g}; 1 is perfectly even",
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
