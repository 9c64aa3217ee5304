"""Pages that the navigation on the left leads to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QWidget

from torchdeck_app.widgets.tab_order import step_focus


class Page(QWidget):
    """Page of the main window. Created when first shown; notified when it is shown and hidden."""

    def actions_offered(self) -> Sequence[QAction]:
        """Return the actions for menu, shortcuts and command palette; each with a text and a shortcut.

        The action's `data` may be the name of its menu. Default: the page's own menu.
        """
        return ()

    def entered(self) -> None:
        """Called when the panel becomes visible: timers may run."""

    def left(self) -> None:
        """Called when the panel is hidden: purely visual updates stop."""

    def closing(self) -> None:
        """End the threads before the window closes; `save_state` has saved unsaved input."""

    def save_state(self) -> dict[str, Any]:
        """Return the state for the next start as JSON values; called often, so it must be fast."""
        return {}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `save_state`; invalid entries (from another version) are skipped."""

    def focusNextPrevChild(self, forward: bool) -> bool:  # noqa: FBT001, N802 - Qt's name
        """Move the focus as the page is read: Qt would follow the order in which widgets were created."""
        return step_focus((self,), forward=forward) or super().focusNextPrevChild(forward)
