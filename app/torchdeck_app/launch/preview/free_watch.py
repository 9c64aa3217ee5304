"""Looks again and again at what is free on this machine, while somebody shows what is planned for it."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal

from torchdeck.contract.inventory import Inventory
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.preview.free_now import has_local, has_moved

LOOK = 5000
"""Milliseconds between two looks."""


class FreeWatch(QObject):
    """Off the GUI thread, one look at a time."""

    moved = Signal()
    """Other programs have taken or freed memory since what `seen` was told."""

    def __init__(self, operations: Operations, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._operations = operations
        self._seen: Inventory | None = None
        self._looking = False
        self._timer = QTimer(self, interval=LOOK)
        self._timer.timeout.connect(self._look)

    def seen(self, inventory: Inventory) -> None:
        """The machines as they were when they were looked at last."""
        self._seen = inventory

    def watch(self, *, watching: bool) -> None:
        """Begin, or stop."""
        if watching:
            self._timer.start()
        else:
            self._timer.stop()

    def _look(self) -> None:
        seen = self._seen
        if seen is None or self._looking or not has_local(seen):
            return
        self._looking = True

        def over(moved: bool) -> None:  # noqa: FBT001 - what the operation returned
            self._looking = False
            if moved and self._timer.isActive():
                self.moved.emit()

        self._operations.run(
            "looking at what is free",
            lambda *_: has_moved(seen),
            done=over,
            failed=lambda _error: over(False),  # noqa: FBT003 - as above
        )
