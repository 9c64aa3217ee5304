"""Tries a node out while it is typed: only the newest try is heard of."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from torchdeck.launching.reach import Reach
from torchdeck.nodes.book.schema import NodeEntry
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.nodes.editing.steps import Step, try_node

DEBOUNCE = 700
"""Milliseconds without a key before it is tried."""
LIMIT = 8.0
"""Seconds of one try to connect, and for the answer."""


class NodeTest(QObject):
    """Each try has a thread of its own: one that waits for a wrong address does not hold up the next."""

    begun = Signal()
    stepped = Signal(object)
    """A Step of the newest try."""
    over = Signal()
    """The newest try has ended."""
    _arrived = Signal(int, object)

    def __init__(self, logins: Logins, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._logins = logins
        self._newest = 0
        self._wanted: tuple[str, NodeEntry] | None = None
        self._clock = QTimer(self)
        self._clock.setSingleShot(True)
        self._clock.timeout.connect(lambda: self._begin(self._logins.quiet))
        self._arrived.connect(self._deliver, Qt.ConnectionType.QueuedConnection)

    def want(self, name: str, entry: NodeEntry | None) -> None:
        """Try this soon, asking nobody; None: what is typed is no node, and nothing is tried."""
        wanted = None if entry is None else (name, entry)
        if wanted == self._wanted:
            return
        self._wanted = wanted
        self._newest += 1
        if wanted is None:
            self._clock.stop()
            self.over.emit()
        else:
            self._clock.start(DEBOUNCE)

    def ask(self) -> None:
        """Try it now; a person may be asked for what is missing."""
        self._clock.stop()
        self._logins.ask_again()
        self._begin(self._logins.asking)

    def stop(self) -> None:
        """Hear of nothing more."""
        self._clock.stop()
        self._newest += 1

    def _begin(self, reach: Reach) -> None:
        if self._wanted is None:
            return
        self._newest += 1
        number, (name, entry) = self._newest, self._wanted
        self.begun.emit()
        threading.Thread(
            target=lambda: _carry_out(lambda step: self._arrived.emit(number, step), name, entry, reach),
            name=f"trying {name}",
            daemon=True,
        ).start()

    def _deliver(self, number: int, step: Step | None) -> None:
        if number != self._newest:
            return
        if step is None:
            self.over.emit()
        else:
            self.stepped.emit(step)


def _carry_out(tell: Callable[[Step | None], None], name: str, entry: NodeEntry, reach: Reach) -> None:
    with suppress(RuntimeError):  # the dialog is gone
        try_node(name, entry, reach, LIMIT, tell)
        tell(None)
