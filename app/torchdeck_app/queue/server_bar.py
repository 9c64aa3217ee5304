"""Bar that says whether a server starts what is queued, and starts or stops one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QWidget

from torchdeck.contract.refusal import Refusal
from torchdeck.use_cases.queue.server_process import start_server, stop_server
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import ElidedLabel, plain_tip
from torchdeck_app.widgets.panel import GRID
from torchdeck_app.widgets.state_badge import Look, StateBadge

if TYPE_CHECKING:
    from torchdeck.agent.processes.detached_process import DetachedProcess

_SERVES = Look("●", "server running", "good")
_NONE = Look("○", "no server", "warn")
_RUNS = "Queued runs start when their devices are free. The server outlives this window."
_WAITS = "Nothing that is queued starts until a server runs."


class ServerBar(QFrame):
    """State of the queue's server, with a button."""

    changed = Signal()
    """Emitted after a server was started or stopped."""
    failed = Signal(str, str)
    """Emitted with why it was not, and the page that helps."""

    def __init__(
        self, theme: Theme, operations: Operations, home: Path, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setProperty("role", "panel")
        self.setAccessibleName("Server of the queue")
        self._operations, self._home = operations, home
        self._is_running = self._is_busy = False
        self._started: list[DetachedProcess] = []
        self.badge = StateBadge(theme)
        self.text = ElidedLabel()
        self.text.setProperty("role", "secondary")
        self.button = QPushButton("Start server")
        self.button.clicked.connect(self._press)
        self._row = row = QHBoxLayout(self)
        row.setContentsMargins(2 * GRID, GRID, 2 * GRID, GRID)
        row.setSpacing(2 * GRID)
        row.addWidget(self.badge)
        row.addWidget(self.text, 1)
        row.addWidget(self.button)
        self.show_state(is_running=False)

    def add(self, button: QPushButton) -> None:
        """Add a button for something else that belongs to the whole queue."""
        self._row.insertWidget(2, button)

    def show_state(self, *, is_running: bool) -> None:
        """Show whether a server of this home runs."""
        self._started = [each for each in self._started if each.exit_code() is None]  # reaps those that ended
        self._is_running = is_running
        self.badge.set_look(_SERVES if is_running else _NONE)
        if not self._is_busy:
            self._show(_RUNS if is_running else _WAITS)

    def _show(self, text: str) -> None:
        self.text.setText(text)
        self.text.setToolTip(plain_tip(text))
        self.button.setText("Stop server" if self._is_running else "Start server")
        self.button.setToolTip(
            "Stop starting queued runs; runs that were started continue"
            if self._is_running
            else "Start a server in the background, as `torchdeck queue serve` is"
        )
        self.button.setProperty("role", "" if self._is_running else "primary")
        self.button.style().unpolish(self.button)
        self.button.style().polish(self.button)

    def _press(self) -> None:
        if self._is_busy:
            return
        self._is_busy = True
        stops = self._is_running
        self.text.setText("Stopping the server …" if stops else "Starting a server …")
        if stops:
            self._operations.run(
                "stopping the server of the queue",
                lambda _progress, _cancel: stop_server(self._home),
                done=lambda _none: self._over(is_running=False),
                failed=self._fail,
            )
        else:
            self._operations.run(
                "starting the server of the queue",
                lambda _progress, _cancel: start_server(self._home),
                done=self._take,
                failed=self._fail,
            )

    def _take(self, process: DetachedProcess) -> None:
        self._started.append(process)
        self._over(is_running=True)

    def _over(self, *, is_running: bool) -> None:
        self._is_busy = False
        self.show_state(is_running=is_running)
        self.changed.emit()

    def _fail(self, error: Exception) -> None:
        self._is_busy = False
        self.show_state(is_running=self._is_running)
        self.failed.emit(str(error), error.page if isinstance(error, Refusal) else "")
