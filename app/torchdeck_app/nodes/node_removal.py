"""Removing a node from the inventory, with confirmation and undo."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QMessageBox, QWidget

from torchdeck.use_cases.nodes.inventory import Removed, remove_nodes, restore_nodes
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.widgets.dialogs import Choice, ask

_LOST = (
    "The node is removed from the node inventory and its groups. Nothing on the node changes, and its "
    "runs continue."
)


class Removal:
    """Removal of a node with confirmation and undo.

    Args:
        owner: widget over which the question appears.
        operations: runs writing the inventory.
        logins: provides the inventory.
        removed: called with a Removed after a removal.
        changed: called after the inventory changed.
        failed: called with an error message.
    """

    def __init__(
        self,
        owner: QWidget,
        operations: Operations,
        logins: Logins,
        *,
        removed: Callable[[Removed], None],
        changed: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        self._owner, self._operations, self._home = owner, operations, logins.home
        self._removed, self._changed, self._failed = removed, changed, failed
        self.dialog: QMessageBox | None = None
        """The question that was asked last."""

    def ask(self, name: str) -> None:
        """Ask whether to remove the node."""
        roles = QMessageBox.ButtonRole
        self.dialog = ask(
            self._owner,
            f"Remove {name} from the node inventory?",
            _LOST,
            (
                Choice("Remove", roles.DestructiveRole, lambda: self._remove(name)),
                Choice("Cancel", roles.RejectRole, lambda: None),
            ),
            default=1,
        )

    def undo(self, removed: Removed) -> None:
        """Restore the node."""
        self._operations.run(
            "writing the node inventory",
            lambda _progress, _cancel: restore_nodes(self._home, removed),
            done=lambda _none: self._changed(),
            failed=lambda error: self._failed(f"{', '.join(removed.names)} was not put back: {error}"),
        )

    def _remove(self, name: str) -> None:
        def done(removed: Removed) -> None:
            self._removed(removed)
            self._changed()

        self._operations.run(
            "writing the node inventory",
            lambda _progress, _cancel: remove_nodes(self._home, [name]),
            done=done,
            failed=lambda error: self._failed(f"{name} was not removed: {error}"),
        )
