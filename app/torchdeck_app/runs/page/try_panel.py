"""Panel to try a run's model: a prompt, and the answers of one or two of its checkpoints."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QDoubleSpinBox,
    QHBoxLayout,
    QPlainTextEdit,
    QPushButton,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from torchdeck.contract.layout import RunLayout
from torchdeck.runs.folders.checkpoints import RunCheckpoint, run_checkpoints
from torchdeck.use_cases.generation.generate import GenerateError, Sampling
from torchdeck.use_cases.generation.trained_model import model_of_run
from torchdeck_app.bridge.background_loop import Poller
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.runs.page.try_answer import TryAnswer
from torchdeck_app.runs.run_panel import RunPanel
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.inputs import QuietSpinBox, set_enabled
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.panel import GRID, EmptyState, label

_INTERVAL = 1.0
_PROMPT_LINES = 3
_LONGEST_PROMPT = 20_000
"""Characters of a prompt that are kept with the window's state."""
_RANDOM = -1
_SEEDS = 1 << 31

_Seen = tuple[str, tuple[RunCheckpoint, ...]]
"""Why the model writes no text, or nothing; and the complete checkpoints, the newest first."""


class PromptEdit(QPlainTextEdit):
    """Text of a few lines; Ctrl+Enter is its own, not the window's."""

    confirmed = Signal()

    def event(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.ShortcutOverride and _confirms(event):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        if _confirms(event):
            self.confirmed.emit()
        else:
            super().keyPressEvent(event)


def _confirms(event: QEvent) -> bool:
    return (
        isinstance(event, QKeyEvent)
        and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        and bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
    )


class TryView(RunPanel):
    """Panel that polls the run's checkpoints while visible; each answer is a process of its own."""

    def __init__(
        self, theme: Theme, operations: Operations, layout: RunLayout, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._layout = layout
        self._writes_text = False
        self._poller = Poller[_Seen]("checkpoints to try", self._look, _INTERVAL, self)
        self._poller.changed.connect(self._take)
        self._poller.failed.connect(self._say_failed)
        self.prompt = PromptEdit()
        self.prompt.setFont(font(Type.MONO))
        self.prompt.setAccessibleName("Prompt")
        self.prompt.setPlaceholderText("Write a text for the model to continue")
        self.prompt.setTabChangesFocus(True)
        self.prompt.setFixedHeight(_PROMPT_LINES * self.prompt.fontMetrics().lineSpacing() + 2 * GRID)
        self.prompt.textChanged.connect(self._enable)
        self.temperature = QDoubleSpinBox()
        self.top_k, self.length, self.seed = QuietSpinBox(), QuietSpinBox(), QuietSpinBox()
        self.start = QPushButton("Write")
        self.start.setProperty("role", "primary")
        self.start.setAccessibleName("Write the answers")
        self.start.clicked.connect(self._write)
        self.cancel = QPushButton("Cancel")
        self.cancel.setAccessibleName("Cancel the answers")
        self.cancel.clicked.connect(self._cancel)
        self.prompt.confirmed.connect(self._write)
        self.first = TryAnswer(operations, layout, "First answer", optional=False)
        self.second = TryAnswer(operations, layout, "Second answer", optional=True)
        for answer in self._answers:
            answer.changed.connect(self._enable)
        self.empty = EmptyState(theme, "note", "Nothing to try yet", _NO_CHECKPOINT)
        self._stack = QStackedWidget()
        self._stack.addWidget(self.empty)
        self._stack.addWidget(self._page())
        QVBoxLayout(self).addWidget(self._stack)
        self._enable()

    def entered(self) -> None:
        self._poller.start()

    def left(self) -> None:
        self._poller.stop()

    def closing(self) -> None:
        self._poller.stop()
        self._cancel()

    def save_state(self) -> dict[str, Any]:
        return {"prompt": self.prompt.toPlainText()[:_LONGEST_PROMPT]}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        if isinstance(state.get("prompt"), str):
            self.prompt.setPlainText(state["prompt"][:_LONGEST_PROMPT])

    @property
    def sampling(self) -> Sampling:
        """Return the settings; both answers have the same seed, a new one unless it is set."""
        seed = self.seed.value()
        if seed == _RANDOM:
            seed = random.randrange(_SEEDS)  # noqa: S311 - no secret
        return Sampling(self.length.value(), self.temperature.value(), self.top_k.value() or None, seed)

    @property
    def _answers(self) -> tuple[TryAnswer, TryAnswer]:
        return self.first, self.second

    def _say_failed(self, error: Exception) -> None:
        self.first.said.say(str(error))

    def _look(self) -> _Seen:
        """Do the work, in the thread."""
        if not self._writes_text:  # else the plan, which never changes, need not be read again
            try:
                model_of_run(self._layout)
            except GenerateError as error:
                return str(error), ()
            except OSError:
                return "The plan of this run is not here, so its model is unknown", ()
            self._writes_text = True
        rows = run_checkpoints(self._layout)
        return "", tuple(
            row for row in rows if row.info.complete and not row.is_leftover and row.script is None
        )

    def _take(self, seen: _Seen) -> None:
        why, rows = seen
        self.empty.set_sentence(why or _NO_CHECKPOINT)
        for answer in self._answers:
            answer.offer(rows)
        self._stack.setCurrentIndex(1 if rows else 0)
        self._enable()

    def _enable(self) -> None:
        writing = any(answer.is_writing for answer in self._answers)
        why = "an answer is being written" if writing else ""
        if not self.prompt.toPlainText():
            why = "the prompt is empty"
        set_enabled(self.start, self.prompt, on=not why)
        self.start.setToolTip(plain_tip(f"Not now: {why}") if why else "Let the model continue (Ctrl+Enter)")
        set_enabled(self.cancel, self.prompt, on=writing)

    def _write(self) -> None:
        if not self.start.isEnabled():
            return
        sampling = self.sampling
        for answer in self._answers:
            answer.write(self.prompt.toPlainText(), sampling)

    def _cancel(self) -> None:
        for answer in self._answers:
            answer.cancel()

    def _page(self) -> QWidget:
        self.temperature.setRange(0, 100)
        self.temperature.setSingleStep(0.1)
        self.temperature.setValue(0.8)
        self.temperature.lineEdit().setTextMargins(self.top_k.lineEdit().textMargins())
        self.top_k.setRange(0, 1 << 20)
        self.top_k.setSpecialValueText("all")
        self.length.setRange(1, 100_000)
        self.length.setValue(200)
        self.seed.setRange(_RANDOM, _SEEDS - 1)
        self.seed.setValue(_RANDOM)
        self.seed.setSpecialValueText("random")
        bar = QHBoxLayout()
        bar.setSpacing(GRID)
        for name, box, tip in (
            ("Temperature", self.temperature, "Below 1, likely bytes become likelier; 0: the likeliest"),
            ("Top-k", self.top_k, "Choose among this many of the likeliest bytes"),
            ("Length", self.length, "Most bytes of an answer"),
            ("Seed", self.seed, "Equal seeds give equal answers; both answers have the same seed"),
        ):
            box.setAccessibleName(name)
            box.setToolTip(tip)
            caption = label(name, role="secondary")
            caption.setBuddy(box)
            bar.addWidget(caption)
            bar.addWidget(box)
        bar.addStretch(1)
        bar.addWidget(self.cancel)
        bar.addWidget(self.start)
        columns = QHBoxLayout()
        columns.setSpacing(2 * GRID)
        for answer in self._answers:
            columns.addWidget(answer, 1)
        page = QWidget()
        column = QVBoxLayout(page)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID)
        column.addWidget(self.prompt)
        column.addLayout(bar)
        column.addLayout(columns, 1)
        return page


_NO_CHECKPOINT = (
    "Once the run has saved a checkpoint, write a prompt here and see how its model continues it."
)
