"""One change of the document's text, to be taken back and done again."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtGui import QUndoCommand

from torchdeck_app.launch.document.text_change import TextChange

TYPING = "typing"
PAUSE = 1.0
"""Seconds after which typing is another act."""
_TYPING_ID = 1


class ChangeText(QUndoCommand):
    """Applies a change through `apply`; typing that goes on with a word is one command."""

    def __init__(
        self,
        change: TextChange,
        what: str,
        apply: Callable[[TextChange], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(what)
        self.change = change
        self.at = clock()
        self._apply = apply

    def redo(self) -> None:
        self._apply(self.change)

    def undo(self) -> None:
        self._apply(self.change.undo())

    def id(self) -> int:
        """Qt tries to merge commands of one id; -1 is never merged."""
        return _TYPING_ID if self.text() == TYPING else -1

    def mergeWith(self, other: QUndoCommand) -> bool:  # noqa: N802 - Qt's name
        if not isinstance(other, ChangeText) or other.at - self.at > PAUSE:
            return False
        joined = self.change.joined(other.change)
        if joined is None:
            return False
        self.change, self.at = joined, other.at
        return True
