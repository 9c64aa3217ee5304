"""What was deleted can be put back for a while: said at the bottom of the list."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QSizePolicy, QWidget

from torchdeck_app.runs.commands.commands import Aside
from torchdeck_app.widgets.panel import GRID, label
from torchdeck_app.widgets.steady_focus import leave
from torchdeck_app.widgets.tooltip import plain_tip

SECONDS = 10
_LONGEST = 40
"""Characters of a run's name."""


class UndoBar(QFrame):
    """Counts down; a second deletion makes the first one final at once."""

    undone = Signal(object)
    """An Aside is to be put back."""
    expired = Signal(object)
    """An Aside is to be removed for good."""

    def __init__(self, home: QWidget, parent: QWidget | None = None) -> None:
        """A bar that is hidden; what had the focus in it gives it to `home` then."""
        super().__init__(parent)
        self.setProperty("role", "panel")
        self._home = home
        self._aside: Aside | None = None
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

    def offer(self, aside: Aside) -> None:
        """Offer to put `aside` back."""
        self.expire()
        self._aside = aside
        self._left = SECONDS
        self._show()
        self.show()
        self._clock.start()

    def undo(self) -> None:
        """Put back what was deleted last."""
        aside = self._end()
        if aside is not None:
            self.undone.emit(aside)

    def expire(self) -> None:
        """What was deleted goes for good."""
        aside = self._end()
        if aside is not None:
            self.expired.emit(aside)

    def _tick(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self.expire()
        else:
            self._show()

    def _end(self) -> Aside | None:
        aside, self._aside = self._aside, None
        self._clock.stop()
        leave(self.button, self._home)
        self.hide()
        return aside

    def _show(self) -> None:
        names = self._aside.names if self._aside is not None else ()
        what = f"{len(names):,} runs, with their"
        if len(names) == 1:
            what = f"{names[0] if len(names[0]) <= _LONGEST else f'{names[0][: _LONGEST - 1]}…'}, with its"
        text = f"Deleted {what} logs, metrics and checkpoints; for good in {self._left} s"
        self._text.setText(text)
        self._text.setToolTip(plain_tip("\n".join((text, *names[:20]))))
