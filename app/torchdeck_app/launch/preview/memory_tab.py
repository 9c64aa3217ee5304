"""Memory use of each device, and changes that reduce it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QBrush, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from torchdeck.contract.plan.prediction import PredictedMemory
from torchdeck.plan.memory.fullness import MemoryPreview, fullness, ranks_text
from torchdeck.plan.memory.spec import Kind, StrategySpec
from torchdeck.plan.memory.suggest import Suggestion
from torchdeck.plan.preview import Preview
from torchdeck.plan.preview.memory_bars import (
    TERMS,
    VERDICT_SIGNS,
    by_family,
    capacity_in_sight,
    facts,
    largest_part,
    magnified,
    most_needed,
    scale_of,
)
from torchdeck.plan.preview.preview import percent
from torchdeck.plan.preview.strategies import StrategyRow, compare_strategies, strategy_change
from torchdeck.quantities import brief, size
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.preview.headline import VERDICT_COLOURS
from torchdeck_app.launch.preview.memory_bars import BarRow, BarRows, term_colour
from torchdeck_app.launch.preview.preview_tab import Column, Figure, Latest, PreviewTab, once_traced, sentence
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.flow import Flow
from torchdeck_app.widgets.panel import GRID, Panel, label

_SOURCES = {
    "traced": "traced: one step of the model",
    "closed form": "estimated from [estimate]",
}
_BY_PROGRAM = "estimated from config.json and the program's arguments"
_HINT = "Point at a part of a bar, or move with the arrow keys, for its size."
_SHOWN = 24
_SCRIPT = "a script chooses its own strategy: nothing of this is written into the run file"
_COMPARING = "Comparing strategies …"


class MemoryView(PreviewTab):
    """Memory tab: bars of every group of ranks, strategies side by side, and helpful changes."""

    change_asked = Signal(dict)
    """Emitted with dotted keys of run.toml and their new values."""
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
                f"{said} The memory of a script is unknown before it runs. It is estimated if the script's "
                "arguments name a model whose config.json is on this machine, or if an [estimate] table "
                "describes the model."
            ).strip()
        return once_traced(preview, "Memory needed")

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
        self._suggestions_panel = Panel("Changes that make it fit")
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
        by_program = self._preview is not None and self._preview.known.models
        self.source.setText(_BY_PROGRAM if by_program else _SOURCES.get(memory.source, memory.source))

    def _show_suggestions(self, memory: MemoryPreview, *, can_apply: bool) -> None:
        short = memory.verdict == "does not fit"
        self._suggestions_panel.setVisible(bool(memory.suggestions) or short)
        self.suggestions.show_suggestions(memory.suggestions, can_apply=can_apply)
        self.nothing_helps.setVisible(short and not memory.suggestions)
        most, _ = largest_part(memory.decisive)
        self.nothing_helps.setText(f"No change that was tried makes it fit. The largest part is {most}.")

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


# Strategies side by side: memory and traffic of each.

COMPARED: tuple[Kind, ...] = ("ddp", "fsdp", "hsdp", "zero1", "zero2", "zero3")


def compared(preview: Preview) -> tuple[StrategyRow, ...]:
    """Return every strategy, including the chosen one.

    Raises:
        ValueError: the model is unknown.
    """
    own = None if preview.spec is None else preview.spec.kind
    alone: tuple[Kind, ...] = ("single",) if own == "single" else ()
    return compare_strategies(preview, (*alone, *COMPARED))


def strategy_rows(rows: Sequence[StrategyRow], *, can_apply: bool) -> list[BarRow]:
    """Return their rows; `can_apply`: a strategy may be written to the run file."""
    return [
        BarRow(
            row.name,
            row.compared.worst,
            below=row.compared.problem or _sends(row),
            chosen=row.chosen,
            choice=row.compared.spec.kind if can_apply and not row.compared.problem else "",
        )
        for row in rows
    ]


def _sends(row: StrategyRow) -> str:
    """Return `12.0 GiB stay between steps; sends 1.2 GiB a step, 0.4 GiB between nodes, 80 ms`."""
    group = row.compared.worst
    text = "" if group is None else f"{size(sum(group.state.values()))} stay between steps"
    if row.traffic is None:
        return text
    text += f"; sends {size(row.traffic.sent)} per step"
    if row.traffic.between:
        text += f", {size(row.traffic.between)} between nodes"
    return text if row.traffic.seconds is None else f"{text}, at least {brief(row.traffic.seconds)}"


class SuggestionList(QWidget):
    """List with a sentence and a button for each suggestion."""

    def __init__(self, asked: Callable[[Mapping[str, Any]], None], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._asked = asked
        self._shown: tuple[tuple[Suggestion, ...], bool] = ((), True)
        self._rows = QVBoxLayout(self)
        self._rows.setContentsMargins(0, 0, 0, 0)
        self._rows.setSpacing(GRID)
        self.buttons: list[QPushButton] = []

    def show_suggestions(self, suggestions: tuple[Suggestion, ...], *, can_apply: bool) -> None:
        """Show suggestions; existing ones stay, and keep the focus.

        Args:
            suggestions: the cheapest first.
            can_apply: whether they are changes of the run file; a script's training is not in it.
        """
        if (suggestions, can_apply) == self._shown:
            return
        self._shown = (suggestions, can_apply)
        self.buttons.clear()
        while self._rows.count():
            item = self._rows.takeAt(0)
            widget = None if item is None else item.widget()
            if widget is not None:
                widget.deleteLater()
        for suggestion in suggestions:
            self._rows.addWidget(self._row(suggestion, can_apply=can_apply))

    def _row(self, suggestion: Suggestion, *, can_apply: bool) -> QWidget:
        made = QWidget()
        row = QHBoxLayout(made)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(2 * GRID)
        text = label(suggestion.sentence, wrap=True)
        text.setTextFormat(Qt.TextFormat.PlainText)
        row.addWidget(text, 1)
        if can_apply:
            button = QPushButton("Apply")
            button.setAccessibleName(f"Apply {suggestion.sentence}")
            button.setToolTip("Write it into the run file; can be undone")
            button.clicked.connect(lambda: self._asked(dict(suggestion.change)))
            row.addWidget(button, 0, Qt.AlignmentFlag.AlignTop)
            self.buttons.append(button)
        return made


# Legend of colours and marks of the memory bars, with the sizes of the fullest rank.

Mark = Literal["range", "capacity", "taken"]
_MARKS: tuple[tuple[Mark, str], ...] = (
    ("capacity", "capacity of the device"),
    ("range", "expected range of the peak"),
    ("taken", "in use by others now"),
)
_SIDE = 12


class Swatch(QWidget):
    """Small sample of a colour or a mark."""

    def __init__(self, theme: Theme, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme, self._name = theme, name
        self.setFixedSize(QSize(_SIDE, _SIDE))
        theme.changed.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 - Qt's name
        painter = QPainter(self)
        text = self._theme.colour("text")
        match self._name:
            case "range":
                painter.fillRect(QRectF(0, 5, _SIDE, 3), text)
            case "capacity":
                painter.fillRect(QRectF(_SIDE / 2 - 1, 0, 2, _SIDE), text)
            case "taken":
                hatched = QBrush(text, Qt.BrushStyle.BDiagPattern)
                painter.fillRect(QRectF(self.rect()), hatched)
            case name:
                painter.fillRect(QRectF(self.rect()), term_colour(name, self._theme.palette))
        painter.end()


class Legend(QWidget):
    """Legend with six parts, always in the same colours and order; below, the visible marks."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._entries = {term.name: Entry(theme, term.name) for term in TERMS}
        self._marks = {name: Entry(theme, name, text) for name, text in _MARKS}
        flow = Flow(across=2 * GRID)
        for entry in (*self._entries.values(), *self._marks.values()):
            flow.add(entry)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(flow)

    def show_memory(self, memory: PredictedMemory, *, marks: set[str]) -> None:
        """Show the parts of `memory`, and the visible marks."""
        parts = by_family(memory.terms)
        for name, entry in self._entries.items():
            entry.show_size(parts.get(name, 0))
        for name, entry in self._marks.items():
            entry.setVisible(name in marks)


class Entry(QWidget):
    """Swatch with its name, and a size if it has one."""

    def __init__(self, theme: Theme, name: str, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name = name
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        self.text = label(text or name, Type.SMALL, "secondary" if text else "")
        row.addWidget(Swatch(theme, name))
        row.addWidget(self.text)

    def show_size(self, count: int) -> None:
        """Show its size in bytes; a part of size 0 stays, dimmed."""
        self.text.setText(f"{self._name} {size(count)}" if count else self._name)
        self.text.setToolTip(f"{count:,} bytes")
        self.text.setEnabled(count > 0)
