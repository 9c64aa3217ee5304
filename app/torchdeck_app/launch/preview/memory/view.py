"""How full each device gets, and what would make it less."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QWidget

from torchdeck.contract.plan.prediction import PredictedMemory
from torchdeck.plan.memory.spec import StrategySpec
from torchdeck.plan.preview import Preview
from torchdeck.plan.preview.bars import capacity_in_sight, facts, magnified, most_needed, scale_of
from torchdeck.plan.preview.headline import percent
from torchdeck.plan.preview.memory import MemoryPreview, fullness, ranks_text
from torchdeck.plan.preview.strategies import StrategyRow
from torchdeck.plan.preview.strategy_change import strategy_change
from torchdeck.plan.preview.terms import VERDICT_SIGNS
from torchdeck.quantities import size
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.preview.memory.bar_rows import BarRow, BarRows
from torchdeck_app.launch.preview.memory.legend import Legend
from torchdeck_app.launch.preview.memory.strategies import compared, strategy_rows
from torchdeck_app.launch.preview.memory.suggestions import SuggestionList
from torchdeck_app.launch.preview.parts.figure import Figure
from torchdeck_app.launch.preview.parts.latest import Latest
from torchdeck_app.launch.preview.parts.sentences import once_traced, sentence
from torchdeck_app.launch.preview.parts.tab import Column, PreviewTab
from torchdeck_app.launch.preview.verdicts import VERDICT_COLOURS
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.flow import Flow
from torchdeck_app.widgets.panel import Panel, label

_SOURCES = {
    "traced": "traced, a step of the model itself",
    "closed form": "estimated from what [estimate] says",
}
_HINT = "Point at a part of a bar, or move with the arrow keys, for its size."
_SHOWN = 24
_SCRIPT = "a script decides on its strategy itself: nothing of this is written into the run file"
_COMPARING = "Comparing strategies …"


class MemoryView(PreviewTab):
    """Bars of every group of ranks, strategies side by side, changes that help."""

    change_asked = Signal(dict)
    """Keys of run.toml, dotted, to their new values."""
    title = "Memory"
    icon = "memory"

    def __init__(self, theme: Theme, operations: Operations, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self._verdict = "unknown"
        self._choices: dict[str, StrategySpec] = {}
        self.comparison = _plain(label(_COMPARING, role="secondary", wrap=True))
        self._compared: Latest[tuple[StrategyRow, ...]] = Latest(operations, "comparing strategies", self)
        self._compared.answered.connect(self._show_strategies)
        self._compared.failed.connect(self._say_no_strategies)
        self._compared.waiting.connect(lambda: self.comparison.setText(_COMPARING))
        self.verdict, self.peak = Figure("verdict"), Figure("peak")
        self.state, self.source = Figure("state"), _plain(label(role="secondary"))
        self.readout = _plain(label(_HINT, Type.SMALL, "secondary"))
        self.groups = BarRows(theme, self._read_out)
        self.legend = Legend(theme)
        self.facts = _plain(label(role="secondary", wrap=True))
        self.suggestions = SuggestionList(self.change_asked.emit)
        self.nothing_helps = _plain(label(wrap=True))
        self.strategies = BarRows(theme, self._read_out, self._choose)
        self.notes = _plain(label(role="secondary", wrap=True))
        self.add_content(self._laid_out())
        theme.changed.connect(self._paint_verdict)

    def missing(self, preview: Preview) -> str:
        if preview.memory is not None:
            return ""
        if preview.plan.batch is None and preview.known.profile is None:
            said = " ".join(sentence(note) for note in preview.notes)
            return (
                f"{said} What a script needs is not known before it runs. Describe its model in an "
                "[estimate] table – layers, width, or the path of a Hugging Face config.json – and its "
                "memory is estimated here."
            ).strip()
        return once_traced(preview, "How much memory is needed")

    def fill(self, preview: Preview) -> None:
        memory = preview.memory
        if memory is None:
            return
        shown = most_needed(memory, _SHOWN)
        scale = scale_of(shown)
        self._show_figures(memory)
        self.groups.show_rows([BarRow(ranks_text(group), group) for group in shown], scale)
        self.legend.show_memory(memory.decisive, marks=_marks(shown, scale))
        left_out = len(memory.groups) - len(shown)
        lines = [
            *facts(memory),
            magnified(shown, scale),
            f"{left_out} more groups need less" if left_out else "",
        ]
        self.facts.setText("\n".join(sentence(line) for line in lines if line))
        self._show_suggestions(memory, can_apply=preview.plan.batch is not None)
        self.notes.setText("\n".join(sentence(note) for note in preview.notes))
        self._notes_panel.setVisible(bool(preview.notes))
        self._strategies_panel.setVisible(preview.known.profile is not None)
        if preview.known.profile is None:
            self._compared.forget()
        else:
            self._compared.ask(lambda: compared(preview))

    def clear(self) -> None:
        self._compared.forget()

    def _laid_out(self) -> Column:
        column = Column()
        figures = Flow()
        for figure in (self.verdict, self.peak, self.state):
            figures.add(figure)
        column.add(figures)
        bars = Panel("Memory at the peak")
        bars.header.addWidget(self.source)
        for widget in (self.groups, self.legend, self.readout, self.facts):
            bars.add(widget)
        column.add(bars)
        self._suggestions_panel = Panel("What would make it fit")
        self._suggestions_panel.add(self.suggestions)
        self._suggestions_panel.add(self.nothing_helps)
        column.add(self._suggestions_panel)
        self._strategies_panel = Panel("Strategies side by side, by their fullest rank")
        self._strategies_panel.add(self.strategies)
        self._strategies_panel.add(self.comparison)
        column.add(self._strategies_panel)
        self._notes_panel = Panel("Notes")
        self._notes_panel.add(self.notes)
        column.add(self._notes_panel)
        return column

    def _show_figures(self, memory: MemoryPreview) -> None:
        group = memory.decisive
        filled = fullness(group)
        self._verdict = memory.verdict
        caption = "the device is not known" if filled is None else f"{percent(filled)} of the device"
        self.verdict.show_number(f"{VERDICT_SIGNS[memory.verdict]} {memory.verdict}", caption)
        self._paint_verdict()
        of = "" if group.capacity_bytes is None else f" of {size(group.capacity_bytes)}"
        free = "" if group.free_bytes is None else f", {size(group.free_bytes)} free now"
        self.peak.show_number(
            size(group.peak_bytes), f"peak{of}{free}, {ranks_text(group)}", f"{group.peak_bytes:,} bytes"
        )
        kept = sum(group.state.values())
        self.state.show_number(size(kept), "stays between steps", f"{kept:,} bytes")
        self.source.setText(_SOURCES.get(memory.source, memory.source))

    def _show_suggestions(self, memory: MemoryPreview, *, can_apply: bool) -> None:
        short = memory.verdict == "does not fit"
        self._suggestions_panel.setVisible(bool(memory.suggestions) or short)
        self.suggestions.show_suggestions(memory.suggestions, can_apply=can_apply)
        self.nothing_helps.setVisible(short and not memory.suggestions)
        most = next(iter(memory.decisive.terms), "nothing")
        self.nothing_helps.setText(f"Nothing that was tried makes it fit; most of it is {most}.")

    def _show_strategies(self, rows: tuple[StrategyRow, ...]) -> None:
        self._choices = {row.compared.spec.kind: row.compared.spec for row in rows}
        worst = [group for row in rows if (group := row.compared.worst) is not None]
        scale = scale_of(worst) if worst else 1.0
        can_apply = self._preview is not None and self._preview.plan.batch is not None
        self.strategies.show_rows(strategy_rows(rows, can_apply=can_apply), scale)
        notes = dict.fromkeys(note for row in rows for note in row.compared.notes)
        if not can_apply:
            notes[_SCRIPT] = None
        self.comparison.setText("\n".join(sentence(note) for note in notes))
        self.comparison.setVisible(bool(notes))

    def _say_no_strategies(self, error: Exception) -> None:
        self.strategies.show_rows([], 1.0)
        self.comparison.setText(sentence(str(error)))
        self.comparison.show()

    def _choose(self, kind: str) -> None:
        spec = self._choices.get(kind)
        if spec is not None and self._preview is not None:
            asked = self._preview.config.distributed.hsdp.shard
            self.change_asked.emit(dict(strategy_change(spec, asked)))

    def _read_out(self, text: str) -> None:
        self.readout.setText(text or _HINT)

    def _paint_verdict(self) -> None:
        colour = self._theme.colour(VERDICT_COLOURS[self._verdict]).name()
        self.verdict.number.setStyleSheet(f"color: {colour};")


def _marks(groups: list[PredictedMemory], scale: float) -> set[str]:
    marks = {"range"}
    if any(capacity_in_sight(group, scale) for group in groups):
        marks.add("capacity")
    if any(g.free_bytes is not None and g.free_bytes < min(g.capacity_bytes or 0, scale) for g in groups):
        marks.add("taken")
    return marks


def _plain(text: QLabel) -> QLabel:
    text.setTextFormat(Qt.TextFormat.PlainText)
    return text
