"""What came of trying a node out: a line for each step."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QGridLayout, QPushButton, QVBoxLayout, QWidget

from torchdeck_app.nodes.editing.steps import KEY, NAMES, Status, Step
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.panel import GRID, label
from torchdeck_app.widgets.steady_focus import set_visible
from torchdeck_app.widgets.wrapped_text import WrappedText

_LOOKS: Mapping[Status, tuple[str, str, str]] = {
    "waiting": ("◷", "quiet", "not looked at yet"),
    "ok": ("✓", "good", "fine"),
    "warning": ("⚠", "warn", "warning"),
    "failed": ("✕", "bad", "wrong"),
}
_RUNNING = ("●", "accent", "being looked at")
_IDLE = "What is typed is tried out: each step below says what came of it."


class StepList(QWidget):
    """Steps keep their place; what has not been tried waits."""

    ask_wanted = Signal()
    """Try again, and ask the person for what is missing."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._steps: dict[int, Step] = {}
        self._is_trying = False
        self._said = label(_IDLE, role="secondary", wrap=True)
        self._signs = [label("") for _ in NAMES]
        self._sentences = [WrappedText("secondary") for _ in NAMES]
        self.ask_button = QPushButton()
        self.ask_button.clicked.connect(self.ask_wanted)
        grid = QGridLayout()
        grid.setHorizontalSpacing(GRID)
        grid.setVerticalSpacing(4)
        grid.setColumnStretch(1, 1)
        for at, name in enumerate(NAMES):
            top = Qt.AlignmentFlag.AlignTop
            grid.addWidget(self._signs[at], 2 * at, 0, top)
            grid.addWidget(label(name), 2 * at, 1, top)
            grid.addWidget(self._sentences[at], 2 * at + 1, 1, top)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID)
        column.addWidget(label("Does it work?", Type.HEADING))
        column.addWidget(self._said)
        column.addLayout(grid)
        column.addWidget(self.ask_button, alignment=Qt.AlignmentFlag.AlignLeft)
        column.addStretch(1)
        theme.changed.connect(self._draw)
        self.clear()

    @property
    def steps(self) -> Mapping[int, Step]:
        """What was told so far, by number."""
        return self._steps

    def clear(self, said: str = _IDLE) -> None:
        """Nothing is known; `said` instead."""
        self._steps, self._is_trying = {}, False
        self._said.setText(said)
        self._draw()

    def begin(self, said: str) -> None:
        """It is being tried: the first step that nothing came of yet is under way."""
        self.clear(said)
        self._is_trying = True
        self._draw()

    def show_step(self, step: Step) -> None:
        """This came of it."""
        self._steps[step.number] = step
        self._draw()

    def end(self) -> None:
        """Nothing more comes."""
        self._is_trying = False
        self._draw()
        found = [step.status for step in self._steps.values()]
        if "failed" in found:
            self._said.setText("It cannot be used as it stands.")
        elif any(step.asks for step in self._steps.values()):
            self._said.setText("It needs a word from you.")
        elif found:
            self._said.setText("It can be used." if "warning" not in found else "It works, with a warning.")
        else:
            self._said.setText(_IDLE)

    def _draw(self) -> None:
        asks = next((step for step in self._steps.values() if step.asks), None)
        set_visible(self.ask_button, self, on=asks is not None)
        if asks is not None:
            self.ask_button.setText("Look at the key …" if asks.number == KEY else "Log in …")
            self.ask_button.setToolTip("Try again, and ask for what is missing")
        behind = max(self._steps, default=-1) + 1
        running = behind if self._is_trying else None
        for at in range(len(NAMES)):
            step = self._steps.get(at)
            sign, colour, word = _RUNNING if at == running else _LOOKS[step.status if step else "waiting"]
            self._signs[at].setText(sign)
            self._signs[at].setStyleSheet(f"color: {self._theme.colour(colour).name()}")
            self._signs[at].setAccessibleName(f"{NAMES[at]}: {word}")
            self._sentences[at].set_text("" if step is None else step.sentence, "secondary")
            self._sentences[at].setVisible(step is not None)
