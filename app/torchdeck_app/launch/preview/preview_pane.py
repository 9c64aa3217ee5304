"""Right side of Launch: preview of the edited run, always up to date."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import (
    QGridLayout,
    QHBoxLayout,
    QPushButton,
    QSizePolicy,
    QStackedWidget,
    QTabWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from torchdeck.plan.preview import Preview
from torchdeck_app.launch.preview.commands_tab import CommandsView
from torchdeck_app.launch.preview.data_tab import DataView
from torchdeck_app.launch.preview.headline import Answer, answers
from torchdeck_app.launch.preview.memory_tab import MemoryView
from torchdeck_app.launch.preview.parameters_tab import ParametersView
from torchdeck_app.launch.preview.placement.placement_tab import PlacementView
from torchdeck_app.launch.preview.placement.run_nodes import RunNodes
from torchdeck_app.launch.preview.preview_service import PreviewService
from torchdeck_app.launch.preview.preview_state import (
    Action,
    Message,
    PreviewState,
    message_of,
    notes_of,
    reason_of,
)
from torchdeck_app.launch.preview.preview_tab import PreviewTab, line_label, wrapped_label
from torchdeck_app.launch.preview.program_tab import ProgramView
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.announcements import News
from torchdeck_app.widgets.help import HelpLink
from torchdeck_app.widgets.labels import ElidedLabel, plain_tip
from torchdeck_app.widgets.panel import GRID, EmptyState

_NARROWEST = 36 * GRID
"""Pixels; with it, Launch and the form are in sight on a screen of 800 × 600."""


class PreviewPane(QWidget):
    """Pane with tabs under a strip that shows memory fit, balance and cost."""

    change_asked = Signal(object)  # Qt's dicts do not support tuples as keys
    """Emitted with a dict: keys of run.toml, dotted or as paths, to their new values: one undo step."""
    trust_asked = Signal(object)
    """Emitted with a Held that the user may be asked to trust."""

    def __init__(
        self,
        theme: Theme,
        service: PreviewService,
        parent: QWidget | None = None,
        *,
        run_nodes: RunNodes | None = None,
    ) -> None:
        """Create a pane for the previews of `service`; `run_nodes` compares the node inventory with the
        document.
        """
        super().__init__(parent)
        self.setAccessibleName("Preview")
        self._service = service
        self._shown: Preview | None = None
        self._why = ""
        self._behind: set[QWidget] = set()
        operations = service.operations
        self.placement = PlacementView(theme, operations, run_nodes=run_nodes)
        self.program = ProgramView(theme)
        self.data = DataView(theme, operations)
        self.memory = MemoryView(theme, operations)
        self.parameters = ParametersView(theme, operations)
        self.commands = CommandsView(theme, operations)
        self.tabs = self._tabs()
        for changing in (self.placement, self.data, self.memory):
            changing.change_asked.connect(self.change_asked.emit)
        self._empty = EmptyState(theme, "launch", "Preview", "")
        self.strip = HeadlineStrip(theme)
        self.bar = MessageBar(theme)
        self.bar.pressed.connect(self._act)
        self._stack = QStackedWidget()
        self._stack.addWidget(self._empty)
        self._stack.addWidget(self.tabs)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(GRID, GRID, GRID, GRID)
        layout.setSpacing(GRID)
        layout.addWidget(self.strip)
        layout.addWidget(self.bar)
        layout.addWidget(self._stack, 1)
        self.tabs.currentChanged.connect(self._catch_up)
        service.updated.connect(self.show_state)
        self.show_state(service.state)

    def _tabs(self) -> QTabWidget:
        tabs = QTabWidget()
        tabs.setDocumentMode(True)
        for name, view in (
            ("&Placement", self.placement),
            ("Pro&gram", self.program),
            ("&Data", self.data),
            ("&Memory", self.memory),
            ("P&arameters", self.parameters),
            ("C&ommands", self.commands),
        ):
            tabs.addTab(view, name)
            view.setMinimumWidth(_NARROWEST)
        tabs.setTabVisible(tabs.indexOf(self.program), False)  # noqa: FBT003 - Qt's
        return tabs

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 - Qt's name
        super().showEvent(event)
        self._service.watch(watching=True)

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802 - Qt's name
        super().hideEvent(event)
        self._service.watch(watching=False)

    def show_state(self, state: PreviewState) -> None:
        """Show the state of the service."""
        preview = state.preview
        if preview is None:
            self._empty.set_sentence(reason_of(state))
        self._stack.setCurrentWidget(self._empty if preview is None else self.tabs)
        self.strip.show_state(state)
        self.bar.show_state(state)
        self.placement.show_state(state)
        if preview is not None:
            self.tabs.setTabVisible(self.tabs.indexOf(self.program), preview.config.run.recipe is None)
        why = "" if state.error is None else str(state.error)
        if preview is not self._shown or why != self._why:
            self._shown, self._why = preview, why
            self._behind = {self.program, self.data, self.memory, self.parameters, self.commands}
        self._catch_up()

    def show_commands(self) -> None:
        """Show the commands, up to date."""
        self.tabs.setCurrentWidget(self.commands)
        self._catch_up()

    def _catch_up(self) -> None:
        """Update the visible tab; the others follow when they are shown."""
        view = self.tabs.currentWidget()
        if view in self._behind and isinstance(view, PreviewTab | CommandsView):
            self._behind.remove(view)
            view.show_preview(self._shown, self._why)

    def _act(self, action: Action) -> None:
        """Run the action of a message's button."""
        match action:
            case Action.TRUST if self._service.state.held is not None:
                self.trust_asked.emit(self._service.state.held)
            case Action.CANCEL:
                self._service.cancel_tracing()
            case Action.REFRESH:
                self._service.refresh()


# Strip above the tabs: answers, arithmetic, and messages of the preview.

_ANSWERS = 3
_ANSWERED = frozenset({Action.TRUST, Action.REFRESH})
"""Actions of messages that stay until they are answered."""
_LINES = 3
"""Lines reserved for the arithmetic."""


class HeadlineStrip(QWidget):
    """Strip with three answers (memory fit, balance, cost) and the arithmetic of a step."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Memory fit, balance and cost")
        self._theme = theme
        self._shown: tuple[Answer, ...] = ()
        self._news = News(self)
        grid = QGridLayout()
        grid.setHorizontalSpacing(2 * GRID)
        grid.setVerticalSpacing(0)
        self._cells = [self._column(grid, column) for column in range(_ANSWERS)]
        self.arithmetic = [line_label(Type.SMALL) for _ in range(_LINES)]
        layout = QVBoxLayout(self)
        layout.setContentsMargins(GRID, 0, GRID, 0)
        layout.setSpacing(GRID)
        layout.addLayout(grid)
        sums = QVBoxLayout()
        sums.setSpacing(0)
        for line in self.arithmetic:
            sums.addWidget(line)
        layout.addLayout(sums)
        theme.changed.connect(self._colour)

    @property
    def answers(self) -> tuple[Answer, ...]:
        """Return what is shown now."""
        return self._shown

    def show_state(self, state: PreviewState) -> None:
        """Show the answers for the preview of `state`, if there is one."""
        self.setVisible(state.preview is not None)
        if state.preview is None:
            return
        self._shown = answers(state.preview)
        self._tell_memory(self._shown[0])
        for cell, answer in zip(self._cells, self._shown, strict=True):
            for part, text in zip(cell, (answer.question, answer.value, answer.detail), strict=True):
                part.setText(text)
                part.setToolTip(plain_tip(answer.exact or text))
            cell[1].setAccessibleName(f"{answer.question}: {answer.value}, {answer.detail}")
        lines = _step_lines(state.preview)
        texts = [*lines[: _LINES - 1], "; ".join(lines[_LINES - 1 :])]
        for at, line in enumerate(self.arithmetic):
            line.setText(texts[at] if at < len(texts) else "")
            line.setToolTip(plain_tip(line.text()))
            line.setVisible(bool(lines) and (at < len(lines) or bool(state.preview.arithmetic)))
        self._colour()

    def _tell_memory(self, memory: Answer) -> None:
        """Tell screen readers when the run begins or ceases to fit; its fullness changes too often."""
        verdict = memory.value.partition(",")[0]
        if memory.colour in ("good", "warn", "bad"):
            self._news.tell("", f"{memory.question}: {verdict}", urgent=memory.colour == "bad")

    def _column(self, grid: QGridLayout, column: int) -> tuple[ElidedLabel, ElidedLabel, ElidedLabel]:
        made = (
            line_label(Type.SMALL, "secondary"),
            line_label(Type.HEADING),
            line_label(Type.SMALL, "secondary"),
        )
        for row, part in enumerate(made):
            grid.addWidget(part, row, column)
        grid.setColumnStretch(column, 1)
        return made

    def _colour(self) -> None:
        for cell, answer in zip(self._cells, self._shown, strict=False):
            _colour(cell[1], self._theme.palette.named(answer.colour))


class MessageBar(QWidget):
    """Bar with a one-line message and its button, and the notes of the plan behind another button.

    Its height changes only for messages that wait for an answer, which are shown whole.
    """

    pressed = Signal(object)
    """Emitted with the Action of the message whose button was pressed."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.message = Message("")
        self._notes: tuple[str, ...] = ()
        self.text = line_label(Type.BODY)
        self.whole = wrapped_label()
        """The same text on as many lines as it needs; a long path makes nothing wider."""
        self.whole.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        self.button = QPushButton()
        self.button.clicked.connect(lambda: self.pressed.emit(self.message.action))
        self.help = HelpLink()
        self.notes_button = QToolButton()
        self.notes_button.setCheckable(True)
        self.notes_button.toggled.connect(self._show_notes)
        self.notes = wrapped_label(Type.SMALL, "secondary")
        self.notes.setContentsMargins(GRID, 0, GRID, 0)
        self.notes.hide()
        row = QHBoxLayout()
        row.setContentsMargins(GRID, 0, GRID, 0)
        row.addWidget(self.text, 1)
        row.addWidget(self.whole, 1)
        row.addWidget(self.button)
        row.addWidget(self.help)
        row.addWidget(self.notes_button)
        line = QWidget()
        line.setLayout(row)
        line.setMinimumHeight(4 * GRID)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(line)
        layout.addWidget(self.notes)
        theme.changed.connect(self._colour)

    def show_state(self, state: PreviewState) -> None:
        """Show the message for `state`."""
        self.message, self._notes = message_of(state), notes_of(state)
        text = self.message.text or (self._notes[0] if self._notes else "")
        self.text.setText(text)
        self.text.setToolTip(plain_tip(self.message.tip or text))
        self.text.setAccessibleName(text)
        waits = self.message.action in _ANSWERED
        self.text.setVisible(not waits)
        self.whole.setVisible(waits)
        self.whole.setText(text)
        self.help.set_page(self.message.page)
        self.button.setVisible(self.message.action is not None)
        self.button.setText(self.message.button)
        self.button.setToolTip(plain_tip(self.message.tip))
        count = len(self._notes)
        self.notes_button.setVisible(count > (0 if self.message.text else 1))
        self.notes_button.setText(f"{count} note{'' if count == 1 else 's'}")
        self.notes_button.setToolTip("More notes about this run")
        self._show_notes()
        self._colour()

    def _show_notes(self) -> None:
        self.notes.setText("\n".join(self._notes))
        self.notes.setVisible(self.notes_button.isChecked() and bool(self._notes))

    def _colour(self) -> None:
        for label in (self.text, self.whole):
            _colour(label, self._theme.palette.named(self.message.colour))


def _step_lines(preview: Preview) -> tuple[str, ...]:
    """Return the arithmetic of a step; of a script, its own settings in a line."""
    if preview.arithmetic or preview.program is None or not preview.program.summary:
        return preview.arithmetic
    return (f"By its own arguments: {preview.program.summary}",)


def _colour(label: QWidget, colour: str) -> None:
    """Set the colour; an unchanged one costs nothing, on every edit."""
    wanted = f"color: {colour};"
    if label.styleSheet() != wanted:
        label.setStyleSheet(wanted)
