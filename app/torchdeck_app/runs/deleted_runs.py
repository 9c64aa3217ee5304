"""Selection in the Runs page after visible runs were deleted."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QSizePolicy, QWidget

from torchdeck_app.runs.commands.commands import Deleted, RunCommands
from torchdeck_app.runs.shown import ShownRuns
from torchdeck_app.runs.table.run_table import RunTable
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.panel import GRID, label
from torchdeck_app.widgets.steady_focus import leave


class DeletedRuns:
    """Selects the next run after a deletion, and a restored run again.

    Args:
        commands: delete, restore and remove runs.
        table: provides the next run.
        shown: shows the run.
        settled: shows the selection.
        open_run: shows a run as soon as it is in the list.
    """

    def __init__(
        self,
        commands: RunCommands,
        table: RunTable,
        shown: ShownRuns,
        settled: Callable[[], None],
        open_run: Callable[[str], None],
    ) -> None:
        self._table, self._shown = table, shown
        self._settled, self._open_run = settled, open_run
        self.undo_bar = UndoBar(table.list)
        commands.deleted.connect(self._offer)
        self.undo_bar.undone.connect(commands.put_back)
        self.undo_bar.undone.connect(self._go_back)
        self.undo_bar.expired.connect(commands.remove)

    def _offer(self, aside: Deleted) -> None:
        self.undo_bar.offer(aside)
        if not self._shown.shows_any(aside.ids):
            return
        if self._table.select_beside(aside.ids):
            self._settled()
        else:
            self._shown.show_none()

    def _go_back(self, aside: Deleted) -> None:
        self._open_run(aside.ids[0])


SECONDS = 10
_LONGEST = 40
"""Maximum characters shown of a run's name."""


class UndoBar(QFrame):
    """Bar with a countdown; a second deletion makes the first one final at once."""

    undone = Signal(object)
    """Emitted with the Deleted to restore."""
    expired = Signal(object)
    """Emitted with the Deleted to remove permanently."""

    def __init__(self, home: QWidget, parent: QWidget | None = None) -> None:
        """Create a hidden bar; when it hides, `home` receives its focus."""
        super().__init__(parent)
        self.setProperty("role", "panel")
        self._home = home
        self._aside: Deleted | None = None
        self._left = 0
        self._text = label("", wrap=True)
        self._text.setTextFormat(Qt.TextFormat.PlainText)
        self._text.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.button = QPushButton("Undo")
        self.button.setAccessibleName("Undo the deletion")
        self.button.setToolTip("Put back what was deleted (Ctrl+Z)")
        self.button.setShortcut("Ctrl+Z")
        self.button.clicked.connect(self.undo)
        row = QHBoxLayout(self)
        row.setContentsMargins(GRID, 4, GRID, 4)
        row.addWidget(self._text, 1)
        row.addWidget(self.button)
        self._clock = QTimer(self)
        self._clock.setInterval(1000)
        self._clock.timeout.connect(self._tick)
        self.hide()

    def offer(self, aside: Deleted) -> None:
        """Offer to restore `aside`."""
        self.expire()
        self._aside = aside
        self._left = SECONDS
        self._show()
        self.show()
        self._clock.start()

    def undo(self) -> None:
        """Restore the last deletion."""
        aside = self._end()
        if aside is not None:
            self.undone.emit(aside)

    def expire(self) -> None:
        """Make the deletion final."""
        aside = self._end()
        if aside is not None:
            self.expired.emit(aside)

    def _tick(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self.expire()
        else:
            self._show()

    def _end(self) -> Deleted | None:
        aside, self._aside = self._aside, None
        self._clock.stop()
        leave(self.button, self._home)
        self.hide()
        return aside

    def _show(self) -> None:
        names = self._aside.names if self._aside is not None else ()
        what = f"{len(names):,} runs"
        if len(names) == 1:
            what = f'"{names[0] if len(names[0]) <= _LONGEST else f"{names[0][: _LONGEST - 1]}…"}"'
        text = f"{what} deleted. Permanently removed in {self._left} s."
        self._text.setText(text)
        self._text.setToolTip(plain_tip("\n".join((text, *names[:20]))))
