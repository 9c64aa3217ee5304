"""Ending what is left of dead runs on a node: asked for first, then done in a worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from PySide6.QtWidgets import QMessageBox, QWidget

from torchdeck.nodes.book.schema import NodeEntry
from torchdeck.nodes.probe.facts import RunHere
from torchdeck.nodes.probe.probing import clean_node
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.nodes.cards.words import cleaning_words, orphan_words
from torchdeck_app.widgets.question import Choice, ask


class Cleaning:
    """Cleans one node at a time, or several at once.

    Args:
        owner: what the question is asked over.
        operations: for the cleaning.
        logins: how nodes are reached.
        told: called with a sentence that says what came of it.
    """

    def __init__(
        self, owner: QWidget, operations: Operations, logins: Logins, told: Callable[[str], None]
    ) -> None:
        self._owner, self._operations, self._logins, self._told = owner, operations, logins, told
        self.dialog: QMessageBox | None = None
        """The question that was asked last."""

    def ask(self, name: str, entry: NodeEntry, orphans: tuple[RunHere, ...]) -> None:
        """Ask whether these processes shall end."""
        roles = QMessageBox.ButtonRole
        self.dialog = ask(
            self._owner,
            f"{orphan_words(orphans)} on {name}. End them?",
            cleaning_words(name, orphans),
            (
                Choice("End them", roles.DestructiveRole, lambda: self._clean(name, entry, orphans)),
                Choice("Cancel", roles.RejectRole, lambda: None),
            ),
            default=1,
        )

    def _clean(self, name: str, entry: NodeEntry, orphans: tuple[RunHere, ...]) -> None:
        run_ids = [run.run_id for run in orphans]
        connect = self._logins.asking.connect
        self._operations.run(
            f"cleaning {name}",
            lambda _progress, _cancel: clean_node(name, entry, connect, run_ids),
            done=lambda found: self._told(outcome(name, found)),
            failed=lambda error: self._told(f"{name} was not cleaned: {error}"),
        )


def outcome(name: str, found: Mapping[str, Any]) -> str:
    """What came of a cleaning."""
    ended = sum(int(count) for count in dict(found.get("ended", {})).values())
    kept, left = list(found.get("kept", [])), int(found.get("left", 0))
    text = f"{name}: {ended} process{'es' * (ended != 1)} ended"
    if kept:
        text += f"; {', '.join(map(str, kept))} is looked after again and was left alone"
    if left:
        text += f"; {left} do not end: look at them there, they may wait for a disk"
    return text
