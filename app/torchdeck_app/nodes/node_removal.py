"""Removing a node from the inventory, with confirmation and undo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtWidgets import QMessageBox, QWidget

from torchdeck.nodes.inventory.file import change_inventory, inventory_path, parse_inventory
from torchdeck.nodes.inventory.text import with_node, without
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.widgets.dialogs import Choice, ask

_LOST = (
    "The node is removed from the node inventory and its groups. Nothing on the node changes, and its "
    "runs continue."
)


@dataclass(frozen=True)
class Removed:
    """State needed to undo a removal."""

    name: str
    before: str
    """Text of the inventory before the removal."""
    after: str


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
        self._owner, self._operations, self._path = owner, operations, inventory_path(logins.home)
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
        """Restore the node: the whole text if it has not changed since, else only the node."""

        def put_back(text: str) -> str:
            if text == removed.after:
                return removed.before
            entry = parse_inventory(removed.before, str(self._path)).nodes[removed.name]
            return with_node(text, removed.name, entry)

        self._operations.run(
            "writing the node inventory",
            lambda _progress, _cancel: change_inventory(self._path, put_back),
            done=lambda _node_inventory: self._changed(),
            failed=lambda error: self._failed(f"{removed.name} was not put back: {error}"),
        )

    def _remove(self, name: str) -> None:
        def call(_progress: object, _cancel: object) -> Removed:
            texts: list[str] = []

            def take_out(text: str) -> str:
                texts.append(text)
                texts.append(without(text, parse_inventory(text, str(self._path)), [name]))
                return texts[-1]

            change_inventory(self._path, take_out)
            return Removed(name, texts[0], texts[-1])

        def done(removed: Removed) -> None:
            self._removed(removed)
            self._changed()

        self._operations.run(
            "writing the node inventory",
            call,
            done=done,
            failed=lambda error: self._failed(f"{name} was not removed: {error}"),
        )
