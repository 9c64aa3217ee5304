"""Panel of a run's page: one view of the run, such as its plots or its logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from torchdeck.runs.view import RunView


class RunPanel(QWidget):
    """Interface of a panel in a run's page; all methods are optional."""

    cursor_moved = Signal(object)
    """Emitted when the user moves the shared time cursor: unix seconds, or None when it leaves."""

    def entered(self) -> None:
        """Called when the panel becomes visible: timers may run."""

    def left(self) -> None:
        """Called when the panel is hidden: purely visual updates stop."""

    def closing(self) -> None:
        """Called when the page closes: end the threads."""

    def show_view(self, view: RunView) -> None:
        """Show the run's current state; called after each change."""

    def set_cursor(self, time: float | None) -> None:
        """Show the time cursor of another panel; unix seconds."""

    def set_until(self, time: float | None) -> None:
        """Show the run as of a moment (unix seconds), for replay; None: the present."""

    def save_state(self) -> dict[str, Any]:
        """Return the state to restore, as JSON values."""
        return {}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `save_state`; invalid entries are skipped."""
