"""A room of a run's page: one view of the run, such as its plots or its logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from torchdeck.runs.view import RunView
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.empty_state import EmptyState


class RunPanel(QWidget):
    """What a run's page asks of each of its parts; every answer may be none."""

    cursor_moved = Signal(object)
    """The one time cursor, moved here by hand: unix seconds, or None where it left."""

    def entered(self) -> None:
        """It is seen from now on: timers may run."""

    def left(self) -> None:
        """It is not seen any more: what only serves the eye stops."""

    def closing(self) -> None:
        """The page closes: threads end."""

    def show_view(self, view: RunView) -> None:
        """The run as of now; called whenever it changed."""

    def set_cursor(self, time: float | None) -> None:
        """The time cursor was moved in another room; unix seconds."""

    def set_until(self, time: float | None) -> None:
        """Show the run as it was at a moment (unix seconds), for replay; None: as it is."""

    def save_state(self) -> dict[str, Any]:
        """What is to be there again, as JSON's values."""
        return {}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `save_state` gave; what does not fit is passed over."""


class EmptyPanel(RunPanel):
    """A room with nothing in it, which says why."""

    def __init__(
        self, theme: Theme, icon: str, title: str, sentence: str, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        QVBoxLayout(self).addWidget(EmptyState(theme, icon, title, sentence))
