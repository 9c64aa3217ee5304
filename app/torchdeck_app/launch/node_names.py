"""Names of the node book, for who chooses nodes of a run."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from torchdeck.nodes.book.names import TAG
from torchdeck.nodes.book.schema import NodeBook
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.bridge.operations import Operation, Operations


class NodeNames(QObject):
    """Read off the GUI thread; what was read last is there at once."""

    changed = Signal()
    """The book says something else than it did when it was read before."""

    def __init__(self, operations: Operations, logins: Logins, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._operations, self._reach = operations, logins.quiet
        self._reading: Operation[NodeBook] | None = None
        self._book = NodeBook()
        self._names: tuple[str, ...] = ()

    @property
    def book(self) -> NodeBook:
        """What was read last; empty before."""
        return self._book

    def names(self) -> tuple[str, ...]:
        """Groups, nodes and tags of the book."""
        return self._names

    def read(self) -> None:
        """Read the book anew; where it is wrong, what was read last stays, and Nodes says why."""
        if self._reading is not None:
            return
        self._reading = self._operations.run(
            "reading the node book",
            lambda _progress, _cancel: self._reach.book(),
            done=self._take,
            failed=lambda _error: self._over(),
        )
        self._reading.cancelled.connect(self._over)

    def _take(self, book: NodeBook) -> None:
        is_new, self._book = book != self._book, book
        self._names = names_in(book)
        self._over()
        if is_new:
            self.changed.emit()

    def _over(self) -> None:
        self._reading = None


def names_in(book: NodeBook) -> tuple[str, ...]:
    """What `distributed.nodes` may name: groups first, then nodes, then tags."""
    tags = dict.fromkeys(f"{TAG}{tag}" for entry in book.nodes.values() for tag in entry.tags)
    return (*book.groups, *book.nodes, *tags)
