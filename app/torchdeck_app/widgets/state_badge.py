"""Badge of a run's state with a shape, a word and a colour; never colour alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from PySide6.QtWidgets import QWidget

from torchdeck.runs.run_state import RunState
from torchdeck_app.theme.palette import ColourName, Palette
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import PlainLabel

if TYPE_CHECKING:
    from torchdeck.runs.view import RunView


class Look(NamedTuple):
    """Look of a state."""

    sign: str
    word: str
    colour: ColourName
    """Name of a palette colour."""

    def rgb(self, palette: Palette) -> str:
        """Return its colour as #rrggbb."""
        return palette.named(self.colour)


LOOKS = {
    RunState.PENDING: Look("◷", "pending", "quiet"),
    RunState.QUEUED: Look("◷", "queued", "quiet"),
    RunState.PREPARING: Look("●", "preparing", "busy"),
    RunState.STARTING: Look("●", "starting", "busy"),
    RunState.RUNNING: Look("●", "running", "busy"),
    RunState.STOPPING: Look("◐", "stopping", "warn"),
    RunState.RESTARTING: Look("◐", "restarting", "warn"),
    RunState.SUCCEEDED: Look("✓", "succeeded", "good"),
    RunState.FAILED: Look("✕", "failed", "bad"),
    RunState.CANCELLED: Look("○", "cancelled", "quiet"),
    RunState.LOST: Look("?", "lost", "warn"),
}
ENDED_WATCH = Look("○", "ended", "quiet")
"""Look of a watched training that is over: only its parent process knows whether it failed."""
STOPPED = Look("○", "stopped", "quiet")
"""Look of a cancelled run that can be resumed."""
HUNG = Look("!", "hung", "bad")
"""Look of an active run with ranks that make no progress."""
UNREADABLE = Look("?", "unreadable", "warn")
UNKNOWN = Look("?", "unknown", "warn")
"""Look of an unfollowed run: its last known state may be outdated."""


def look_of_run(view: RunView) -> Look:
    """Return the look of a run's state."""
    if view.is_ended_watch:
        return ENDED_WATCH
    if view.is_hung and view.state is not RunState.STOPPING and view.followed_until is None:
        return HUNG
    if view.followed_until is not None:
        return UNKNOWN
    return STOPPED if view.state is RunState.CANCELLED and view.resumable else LOOKS[view.state]


class StateBadge(PlainLabel):
    """Label that shows one state."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent=parent)
        self._theme = theme
        self._look: Look | None = None
        theme.changed.connect(self._show)

    def set_look(self, look: Look) -> None:
        """Show a state."""
        if look != self._look:  # setting a style sheet costs a layout of everything around
            self._look = look
            self._show()

    def _show(self) -> None:
        if self._look is None:
            return
        self.setText(f"{self._look.sign} {self._look.word}")
        self.setAccessibleName(self._look.word)
        self.setStyleSheet(f"color: {self._look.rgb(self._theme.palette)};")
