"""One answer to a prompt: the checkpoint that gives it, its text as it is written, and what became of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QPlainTextEdit, QVBoxLayout, QWidget

from torchdeck.contract.layout import RunLayout
from torchdeck.quantities import brief
from torchdeck.runs.folders.checkpoints import RunCheckpoint
from torchdeck.shown_text import shown
from torchdeck.use_cases.generation.generate import Answered, Sampling, generate
from torchdeck.use_cases.generation.trained_model import interpreter_of_run, model_of_run
from torchdeck_app.bridge.operations import Cancel, Operation, Operations
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.widgets.help import ErrorLine, page_of
from torchdeck_app.widgets.inputs import NamedBox
from torchdeck_app.widgets.panel import GRID

NONE = "No second answer"
_FLUSH = 50
"""Milliseconds between two updates of a text that is being written."""
_MOST_SHOWN = 1_000_000
"""Characters of an answer that are shown; no model of these recipes writes more."""


class TryAnswer(QWidget):
    """Column with the answer of one checkpoint.

    Args:
        operations: runs the work.
        layout: the run.
        name: accessible name, such as `First answer`.
        optional: whether it may be left out.
    """

    changed = Signal()
    """Emitted when an answer begins or ends, or another checkpoint is chosen."""

    def __init__(
        self,
        operations: Operations,
        layout: RunLayout,
        name: str,
        *,
        optional: bool,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._operations, self._layout = operations, layout
        self._optional = optional
        self._offered: tuple[Path, ...] = ()
        self._operation: Operation[Answered] | None = None
        self._pieces: deque[str] = deque()
        self.choice = NamedBox()
        self.choice.setAccessibleName(f"Checkpoint of the {name.lower()}")
        self.choice.currentIndexChanged.connect(lambda _index: self.changed.emit())
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setFont(font(Type.MONO))
        self.text.setAccessibleName(name)
        self.text.setTabChangesFocus(True)
        self.text.setPlaceholderText("The answer appears here as it is written.")
        self.said = ErrorLine()
        self._clock = QTimer(self, interval=_FLUSH)
        self._clock.timeout.connect(self._flush)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID)
        column.addWidget(self.choice)
        column.addWidget(self.text, 1)
        column.addWidget(self.said)
        if optional:
            self.choice.addItem(NONE, None)

    @property
    def checkpoint(self) -> Path | None:
        """Return the chosen checkpoint; None: no answer is wanted."""
        chosen: Path | None = self.choice.currentData()
        return chosen

    @property
    def is_writing(self) -> bool:
        return self._operation is not None

    def offer(self, rows: Sequence[RunCheckpoint]) -> None:
        """Offer these checkpoints, the newest first; the choice stays."""
        paths = tuple(row.info.path for row in rows)
        if paths == self._offered:
            return
        self._offered, chosen = paths, self.checkpoint
        self.choice.blockSignals(True)  # noqa: FBT003 - Qt's own parameter
        self.choice.clear()
        if self._optional:
            self.choice.addItem(NONE, None)
        for row in rows:
            self.choice.addItem(f"Step {row.info.step:,} ({row.info.path.name})", row.info.path)
        # not findData, which compares Python's objects by identity
        at = paths.index(chosen) + self._optional if chosen in paths else 0
        self.choice.setCurrentIndex(at)
        self.choice.blockSignals(False)  # noqa: FBT003 - Qt's own parameter
        self.changed.emit()

    def write(self, prompt: str, sampling: Sampling) -> None:
        """Begin the answer to `prompt`, in place of the one that is shown; none if none is wanted."""
        source, pieces = self.checkpoint, deque[str]()
        self.text.clear()
        self.said.say("")
        if source is None or self._operation is not None:
            return
        self._pieces = pieces

        def work(_progress: object, cancel: Cancel) -> Answered:
            def take(piece: str) -> None:
                cancel.check()
                pieces.append(piece)

            return generate(
                source,
                model_of_run(self._layout),
                prompt,
                sampling,
                interpreter=interpreter_of_run(self._layout),
                text=take,
                progress=lambda *_: cancel.check(),
            )

        self.said.say(f"Loading {source.name} …", role="secondary")
        operation = self._operations.run(f"writing text with {source.name}", work)
        operation.succeeded.connect(self._end)
        # methods of this widget: Qt disconnects them with it
        operation.failed.connect(self._fail)
        operation.cancelled.connect(self._say_cancelled)
        self._operation = operation
        self._clock.start()
        self.changed.emit()

    def cancel(self) -> None:
        """End an answer that is being written; what is there stays."""
        if self._operation is not None:
            self._operation.cancel()

    def _end(self, done: Answered) -> None:
        said = f"{done.tokens:,} bytes in {brief(done.seconds)}"
        if done.ended:
            said += "; the model ended it"
        if done.unread:
            said += f"; the model did not read the first {done.unread:,} bytes of the prompt"
        self._over(said, "", "secondary")

    def _fail(self, error: Exception) -> None:
        self._over(str(error), page_of(error), "error")

    def _say_cancelled(self) -> None:
        self._over("Cancelled", "", "secondary")

    def _over(self, said: str, page: str, role: str) -> None:
        self._clock.stop()
        self._flush()
        self._operation = None
        self.said.say(said, page, role=role)
        self.changed.emit()

    def _flush(self) -> None:
        """Append what has arrived."""
        arrived = []
        while self._pieces:
            arrived.append(self._pieces.popleft())
        if not arrived:
            return
        if self.is_writing:
            self.said.say("Writing …", role="secondary")
        room = _MOST_SHOWN - self.text.document().characterCount()
        cursor = QTextCursor(self.text.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.insertText(shown("".join(arrived))[: max(0, room)])
