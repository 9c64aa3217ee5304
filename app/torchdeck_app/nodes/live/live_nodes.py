"""All nodes of the book, live while they are looked at; told to the GUI thread a few times a second."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from torchdeck.nodes.book.file import book_path
from torchdeck.nodes.book.schema import NodeBook, NodeEntry
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.bridge.poller import Poller
from torchdeck_app.nodes.live.sight import NodeSight
from torchdeck_app.nodes.live.watch import WAITS, NodeWatch

AT_ONCE = 8
"""Nodes that are connected to at a time: keys are exchanged by this process."""
BOOK_INTERVAL = 2.0
"""Seconds between two looks at the book, which other programs change too."""
_DELIVERY = 250
"""Milliseconds between two deliveries to the GUI thread."""


class LiveNodes(QObject):
    """Watches each node by a thread of its own. All methods are for the GUI thread."""

    book_changed = Signal(object)
    """A NodeBook: what it has now."""
    book_failed = Signal(Exception)
    """It cannot be read."""
    seen = Signal(object)
    """A tuple of NodeSight: those that are new."""

    def __init__(self, logins: Logins, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._logins = logins
        self._entries: dict[str, NodeEntry] = {}
        self._watches: dict[str, NodeWatch] = {}
        self._sights: dict[str, NodeSight] = {}
        self._news: dict[str, NodeSight] = {}
        self._lock = threading.Lock()
        self._gate = threading.Semaphore(AT_ONCE)
        self._poller: Poller[NodeBook] = Poller("the node book", logins.quiet.book, BOOK_INTERVAL, self)
        self._poller.changed.connect(self._take_book)
        self._poller.failed.connect(self.book_failed)
        self._clock = QTimer(self)
        self._clock.setInterval(_DELIVERY)
        self._clock.timeout.connect(self._deliver)

    @property
    def book_file(self) -> Path:
        """Where the book lies."""
        return book_path(self._logins.home)

    @property
    def entries(self) -> Mapping[str, NodeEntry]:
        """The nodes as they stand in the book."""
        return self._entries

    @property
    def sights(self) -> Mapping[str, NodeSight]:
        """What was seen of each."""
        return self._sights

    @property
    def open_watches(self) -> int:
        """Nodes that are being watched."""
        return len(self._watches)

    def start(self) -> None:
        """They are looked at from now on."""
        self._clock.start()
        self._poller.start()
        self._watch_all()

    def stop(self, seconds: float = 0.0) -> None:
        """They are not looked at any more: all channels are closed, the book is not read.

        Args:
            seconds: how long to wait for the threads in all.
        """
        self._clock.stop()
        self._poller.stop(seconds)
        watches, self._watches = list(self._watches.values()), {}
        for watch in watches:
            watch.stop()
        for watch in watches:
            if seconds:
                watch.stop(seconds)

    def look_again(self) -> None:
        """The book was just changed."""
        self._poller.poke()

    def retry(self, name: str, *, asking: bool) -> None:
        """Try a node again at once; `asking`: a person may be asked for what is missing."""
        if name not in self._watches:
            return
        if asking:
            self._logins.ask_again()
        self._watches[name].retry(self._logins.asking.connect if asking else None)

    def retry_waiting(self) -> None:
        """Try those again that wait for a person: what they want was maybe said elsewhere. Asks nobody."""
        for name, sight in self._sights.items():
            if sight.standing in WAITS:
                self.retry(name, asking=False)

    def _take_book(self, book: NodeBook) -> None:
        self._entries = dict(book.nodes)
        for name in [name for name in self._sights if name not in self._entries]:
            del self._sights[name]
        for name, watch in list(self._watches.items()):
            if self._entries.get(name) != watch.entry:
                watch.stop()
                del self._watches[name]
                self._sights.pop(name, None)
        self.book_changed.emit(book)
        self._watch_all()

    def _watch_all(self) -> None:
        if not self._clock.isActive():
            return
        for name, entry in self._entries.items():
            if name not in self._watches:
                connect, known = self._logins.quiet.connect, self._sights.get(name)
                watch = NodeWatch(name, entry, connect, self._gate, self._hear, known)
                self._watches[name] = watch
                watch.start()

    def _hear(self, sight: NodeSight) -> None:
        """In a thread."""
        with self._lock:
            self._news[sight.name] = sight

    def _deliver(self) -> None:
        with self._lock:
            news, self._news = self._news, {}
        news = {name: sight for name, sight in news.items() if name in self._watches}
        if news:
            self._sights.update(news)
            self.seen.emit(tuple(news.values()))
