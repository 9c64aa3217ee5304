"""Live state of all nodes in the inventory while shown, delivered to the GUI thread a few times per
second.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from PySide6.QtCore import QObject, QTimer, Signal

from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.inventory.schema import NodeEntry, NodeInventory
from torchdeck.nodes.probe.facts import facts_from
from torchdeck.nodes.probe.probe_session import ProbeError, ProbeSession
from torchdeck.nodes.probe.probing import Connect, open_probe_session
from torchdeck.nodes.ssh.connection import Connection
from torchdeck.nodes.ssh.errors import HostKeyUnknownError
from torchdeck_app.bridge.background_loop import Poller
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.nodes.node_sight import NodeSight, Standing, python_fix, sample_from, standing_of

AT_ONCE = 8
"""Maximum nodes connecting at a time: this process does the key exchanges."""
INVENTORY_INTERVAL = 2.0
"""Seconds between two polls of the inventory, which other programs change too."""
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

    def __init__(self, logins: Logins, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._logins = logins
        self._entries: dict[str, NodeEntry] = {}
        self._watches: dict[str, NodeWatch] = {}
        self._sights: dict[str, NodeSight] = {}
        self._news: dict[str, NodeSight] = {}
        self._lock = threading.Lock()
        self._gate = threading.Semaphore(AT_ONCE)
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
        self.inventory_changed.emit(node_inventory)
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
        """Store a node's state; called in its thread."""
        with self._lock:
            self._news[sight.name] = sight

    def _deliver(self) -> None:
        with self._lock:
            news, self._news = self._news, {}
        news = {name: sight for name, sight in news.items() if name in self._watches}
        if news:
            self._sights.update(news)
            self.seen.emit(tuple(news.values()))


# Monitors one node over one channel: its facts once, then a sample per second.

INTERVAL = 1.0
"""Seconds between two samples."""
REACH_LIMIT = 10.0
"""Seconds to connect, and for the first answer."""
ANSWER_LIMIT = 10.0
"""Seconds for a sample; after that the connection counts as lost."""
RUNS_EVERY = 5
"""Samples between two scans of a node's processes."""
_FIRST_REST, _LONGEST_REST = 2.0, 30.0
"""First and longest delay in seconds before retrying a node; doubled after each attempt."""
WAITS = (Standing.NEEDS_LOGIN, Standing.NEEDS_KEY, Standing.KEY_UNKNOWN, Standing.KEY_CHANGED)
"""States that last until the user acts."""


class NodeWatch:
    """Thread that polls one node until `stop` and reports its state.

    Args:
        name: the node's name.
        entry: the node's entry in the inventory.
        connect: connects without prompting.
        gate: held while connecting, to limit concurrent connection attempts.
        tell: called in the thread with each NodeSight, never after `stop`.
        known: the last known state.
    """

    def __init__(
        self,
        name: str,
        entry: NodeEntry,
        connect: Connect,
        gate: threading.Semaphore,
        tell: Callable[[NodeSight], None],
        known: NodeSight | None = None,
    ) -> None:
        self.name, self.entry = name, entry
        self._connect, self._gate, self._tell = connect, gate, tell
        self._sight = (
            NodeSight(name) if known is None else replace(known, standing=Standing.REACHING, why="", fix="")
        )
        self._wake = threading.Condition()
        self._is_stopped = False
        self._asking: Connect | None = None
        self._wants_retry = False
        self._thread = threading.Thread(target=self._run, name=f"node {name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, seconds: float = 0.0) -> bool:
        """Stop reporting and close the channel; return whether the thread ended within `seconds`."""
        with self._wake:
            self._is_stopped = True
            self._wake.notify_all()
        if seconds and self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def retry(self, connect: Connect | None = None) -> None:
        """Retry at once if not connected, this time by `connect`, which may prompt the user."""
        with self._wake:
            self._asking, self._wants_retry = connect, True
            self._wake.notify_all()

    def _run(self) -> None:
        rest = _FIRST_REST
        while not self._is_stopped:
            try:
                self._watch()
                return
            except (Refusal, OSError) as error:
                was_reached = self._sight.standing is Standing.REACHED
                standing = standing_of(error)
                if was_reached and standing is Standing.NO_PYTHON:
                    standing = Standing.UNREACHABLE  # it did run: it was killed
                fix = python_fix(self.entry) if standing is Standing.NO_PYTHON else ""
                self._say(standing=standing, why=_sentence(error), fix=fix)
            rest = _FIRST_REST if was_reached else min(2 * rest, _LONGEST_REST)
            self._rest(None if standing in WAITS else rest)

    def _watch(self) -> None:
        """Poll the node until stopped or disconnected."""
        with self._wake:
            asking, self._asking = self._asking, None
            wanted, self._wants_retry = self._wants_retry, False
        if wanted:  # else the error stays readable during automatic retries
            self._say(standing=Standing.REACHING, why="", fix="")
        reach = self._gated if asking is None else asking
        with open_probe_session(self.name, self.entry, reach, REACH_LIMIT) as probe_session:
            folders = [self.entry.working_dir] if self.entry.working_dir else []
            answer = probe_session.ask(ProbeRequest.FACTS, REACH_LIMIT, home=self.entry.home, folders=folders)
            facts = facts_from(self.name, answer)
            self._say(standing=Standing.REACHED, facts=facts, runs=facts.runs, why="", fix="")
            count = 0
            while not self._is_stopped:
                self._wants_retry = False  # it is connected
                self._sample(probe_session, with_runs=count % RUNS_EVERY == 0)
                count += 1
                self._rest(INTERVAL)

    def _gated(self, name: str, limit: float) -> Connection:
        with self._gate:
            if self._is_stopped:
                raise ProbeError(f"node {name} is not wanted any more")
            return self._connect(name, limit)

    def _sample(self, probe_session: ProbeSession, *, with_runs: bool) -> None:
        facts = self._sight.facts
        devices = [] if facts is None else [gpu.uuid or str(gpu.index) for gpu in facts.gpu.devices]
        answer = probe_session.ask(
            ProbeRequest.SAMPLE, ANSWER_LIMIT, home=self.entry.home, devices=devices, runs=with_runs
        )
        sample = sample_from(self.name, answer)
        runs = self._sight.runs if sample.runs is None else sample.runs
        self._say(sample=sample, runs=runs)

    def _say(self, **newer: object) -> None:
        self._sight = replace(self._sight, **newer)  # type: ignore[arg-type]  # fields of its own
        with self._wake:
            if not self._is_stopped:
                self._tell(self._sight)

    def _rest(self, seconds: float | None) -> None:
        """Wait `seconds`, or forever if None, until stopped or retried."""
        with self._wake:
            if not self._is_stopped and not self._wants_retry:
                self._wake.wait(seconds)


def _sentence(error: Exception) -> str:
    """Return the error as a sentence; for an unknown host key without terminal advice, as the window has a
    button for it.
    """
    if isinstance(error, HostKeyUnknownError):
        return f"Host key not verified: {error.key_type} {error.fingerprint}"
    text = str(error) or type(error).__name__
    return text[:1].upper() + text[1:]
