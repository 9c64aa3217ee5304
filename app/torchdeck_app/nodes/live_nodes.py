"""Live state of all nodes in the inventory while shown, delivered to the GUI thread a few times per
second.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from PySide6.QtCore import QObject, QTimer, Signal

from torchdeck.nodes.inventory.schema import NodeEntry, NodeInventory
from torchdeck.use_cases.nodes.monitor import NodeMonitor, NodeNow, Pace
from torchdeck_app.bridge.background_loop import Poller
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.nodes.node_sight import NodeSight, Standing, sight_of

AT_ONCE = 8
"""Maximum nodes connecting at a time: this process does the key exchanges."""
INVENTORY_INTERVAL = 2.0
"""Seconds between two polls of the inventory, which other programs change too."""
WAITS = (Standing.NEEDS_LOGIN, Standing.NEEDS_KEY, Standing.KEY_UNKNOWN, Standing.KEY_CHANGED)
"""States that last until the user acts."""
_DELIVERY = 250
"""Milliseconds between two deliveries to the GUI thread."""


class LiveNodes(QObject):
    """Monitor with one thread per node. All methods are for the GUI thread."""

    inventory_changed = Signal(object)
    """Emitted with the current NodeInventory."""
    inventory_failed = Signal(Exception)
    """Emitted when the inventory cannot be read."""
    seen = Signal(object)
    """Emitted with a tuple of the new NodeSight values."""
    reported = Signal(object)
    """Emitted with a tuple of all new NodeNow values, before `seen`."""

    def __init__(self, logins: Logins, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._logins = logins
        self._entries: dict[str, NodeEntry] = {}
        self._watches: dict[str, NodeMonitor] = {}
        self._known: dict[str, NodeNow] = {}
        """Last state of each node, while it is not monitored."""
        self._sights: dict[str, NodeSight] = {}
        self._news: list[NodeNow] = []
        self._lock = threading.Lock()
        self._pace = Pace(user_delay=None, gate=threading.Semaphore(AT_ONCE))
        self._poller: Poller[NodeInventory] = Poller(
            "the node inventory", logins.quiet.node_inventory, INVENTORY_INTERVAL, self
        )
        self._poller.changed.connect(self._take_inventory)
        self._poller.failed.connect(self.inventory_failed)
        self._clock = QTimer(self)
        self._clock.setInterval(_DELIVERY)
        self._clock.timeout.connect(self._deliver)

    @property
    def entries(self) -> Mapping[str, NodeEntry]:
        """Return the nodes as the inventory has them."""
        return self._entries

    @property
    def sights(self) -> Mapping[str, NodeSight]:
        """Return the latest state of each node."""
        return self._sights

    @property
    def open_watches(self) -> int:
        """Return the number of nodes being monitored."""
        return len(self._watches)

    def start(self) -> None:
        """Start monitoring."""
        self._clock.start()
        self._poller.start()
        self._watch_all()

    def stop(self, seconds: float = 0.0) -> None:
        """Stop monitoring: all channels are closed and the inventory is not polled.

        Args:
            seconds: total time to wait for the threads.
        """
        self._clock.stop()
        self._poller.stop(seconds)
        watches, self._watches = list(self._watches.values()), {}
        for watch in watches:
            watch.stop()
            self._known[watch.name] = watch.now
        for watch in watches:
            if seconds:
                watch.stop(seconds)

    def look_again(self) -> None:
        """Read the inventory again because it was just changed."""
        self._poller.poke()

    def retry(self, name: str, *, asking: bool) -> None:
        """Retry a node at once; `asking`: the user may be prompted for missing input."""
        if name not in self._watches:
            return
        if asking:
            self._logins.ask_again()
        self._watches[name].retry(self._logins.asking.connect if asking else None)

    def retry_waiting(self) -> None:
        """Retry nodes that wait for the user, whose input may have been given elsewhere, without
        prompting.
        """
        for name, sight in self._sights.items():
            if sight.standing in WAITS:
                self.retry(name, asking=False)

    def _take_inventory(self, node_inventory: NodeInventory) -> None:
        self._entries = dict(node_inventory.nodes)
        for name in [name for name in self._sights if name not in self._entries]:
            del self._sights[name]
        for name, watch in list(self._watches.items()):
            if self._entries.get(name) != watch.entry:
                watch.stop()
                del self._watches[name]
                self._sights.pop(name, None)
                self._known.pop(name, None)
        self.inventory_changed.emit(node_inventory)
        self._watch_all()

    def _watch_all(self) -> None:
        if not self._clock.isActive():
            return
        for name, entry in self._entries.items():
            if name not in self._watches:
                connect, known = self._logins.quiet.connect, self._known.get(name)
                watch = NodeMonitor(name, entry, connect, self._hear, self._pace, known)
                self._watches[name] = watch
                watch.start()

    def _hear(self, now: NodeNow) -> None:
        """Store a node's state; called in its thread."""
        with self._lock:
            self._news.append(now)

    def _deliver(self) -> None:
        with self._lock:
            news, self._news = self._news, []
        seen: dict[str, NodeSight] = {}
        news = [now for now in news if now.node in self._watches]
        if news:
            self.reported.emit(tuple(news))
        for now in news:
            seen[now.node] = sight_of(now, self._entries[now.node], self._sights.get(now.node))
            self._sights[now.node] = seen[now.node]
        if seen:
            self.seen.emit(tuple(seen.values()))
