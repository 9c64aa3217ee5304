"""A place: one of the pages that the navigation on the left leads to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QWidget


class Page(QWidget):
    """A page of the main window. Made when it is first shown; told when it is seen and when not."""

    state_changed = Signal()
    """What `save_state` gives has changed, and maybe by no key or movement that a window gets."""

    def actions_offered(self) -> Sequence[QAction]:
        """What can be done here, for menu, shortcuts and command palette; each with a text and a shortcut.

        The action's `data` may be the name of the menu it belongs in; the place's own otherwise.
        """
        return ()

    def entered(self) -> None:
        """It is seen from now on: timers may run."""

    def left(self) -> None:
        """It is not seen any more: what only serves the eye stops."""

    def closing(self) -> None:
        """The window closes: threads end, what is unsaved has been saved by `save_state`."""

    def save_state(self) -> dict[str, Any]:
        """What is to be there again at the next start, as JSON's values; asked for often, so it is quick."""
        return {}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `save_state` gave; whatever does not fit (another version wrote it) is passed over."""
