"""Actions of the Queue page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QWidget

from torchdeck.queue.entry import Stage
from torchdeck.use_cases.queue.listing import ListedEntry


class QueueActions:
    """Actions whose functions are set by `connect_to`."""

    def __init__(self, parent: QWidget) -> None:
        self._parent = parent
        self.open_run = self._made("&Open run", "", "Open the run of the selected entry")
        self.up = self._made("Move &up", "Alt+Up", "Let the selected entry start before the one above it")
        self.down = self._made("Move &down", "Alt+Down", "Let the selected entry start after the next one")
        self.first = self._made("Move to the &first place", "Alt+Home", "Let the selected entry start first")
        self.last = self._made("Move to the &last place", "Alt+End", "Let the selected entry start last")
        self.pause = self._made("&Pause", "Ctrl+Alt+P", "Hold entries back; they keep their place")
        self.resume = self._made("&Resume", "Ctrl+Alt+R", "Let the selected entries start again")
        self.priority = self._made("Priorit&y…", "", "Set the priority of the selected entry")
        self.remove = self._made("Re&move…", "Del", "Remove the selected entries that do not run")
        self.limits = self._made("Li&mits…", "", "Set how many runs the queue starts at once")
        self.of_entry: tuple[QAction, ...] = (
            self.open_run, self.up, self.down, self.first, self.last,
            self.pause, self.resume, self.priority, self.remove,
        )  # fmt: skip
        self.all: tuple[QAction, ...] = (*self.of_entry, self.limits)
        self.shown: tuple[QAction, ...] = (
            self.open_run, self.up, self.down, self.pause, self.resume, self.remove,
        )  # fmt: skip
        """Those with a button above the table."""

    @staticmethod
    def connect_to(calls: Mapping[QAction, Callable[[], object]]) -> None:
        """Say what actions do."""
        for action, call in calls.items():
            action.triggered.connect(lambda _checked=False, call=call: call())

    def show_choice(self, chosen: Sequence[ListedEntry], waiting: Sequence[str]) -> None:
        """Enable what is possible with the selected entries.

        Args:
            chosen: the selected entries.
            waiting: ids of all that wait, in their order.
        """
        alone = chosen[0].entry if len(chosen) == 1 else None
        place = waiting.index(alone.id) if alone is not None and alone.id in waiting else None
        held = [each.entry.paused for each in chosen if each.entry.stage is Stage.WAITING]
        self.open_run.setEnabled(alone is not None and bool(alone.run))
        for action in (self.up, self.first):
            action.setEnabled(place is not None and place > 0)
        for action in (self.down, self.last):
            action.setEnabled(place is not None and place < len(waiting) - 1)
        self.pause.setEnabled(False in held)
        self.resume.setEnabled(True in held)
        self.priority.setEnabled(place is not None)
        self.remove.setEnabled(any(not each.entry.has_devices for each in chosen))

    def _made(self, text: str, keys: str, tip: str) -> QAction:
        action = QAction(text, self._parent)
        if keys:
            action.setShortcut(QKeySequence(keys))
        action.setToolTip(f"{tip} ({keys})" if keys else tip)
        return action
