"""The queue's server: one process per home that starts entries when their devices are free."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchdeck.contract.atomic import read_json
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.layout import Home
from torchdeck.contract.lock_file import try_lock
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.inventory.schema import NodeInventory
from torchdeck.queue.decision import RunNow, Situation, decide, wanted_runs
from torchdeck.queue.entry import Entry, Stage
from torchdeck.queue.queue_file import change_queue, read_queue
from torchdeck.queue.scheduling.ask import Ask, Places
from torchdeck.queue.scheduling.scheduler import Schedule
from torchdeck.queue.state import NewerQueueError, Queue, QueueError
from torchdeck.use_cases.queue.known_runs import KnownRuns
from torchdeck.use_cases.queue.machines import MachineWatch, resolved
from torchdeck.use_cases.queue.starting import ChangedError, recover, start_entry
from torchdeck.use_cases.queue.status import write_status
from torchdeck.use_cases.ui import Ui

if TYPE_CHECKING:
    from torchdeck.agent.processes.detached_process import DetachedProcess

TICK = 2.0
"""Seconds between two looks."""
AGAIN_AFTER = 60.0
"""Seconds before a start that was refused is tried again."""
LONGEST_PAUSE = 3600.0
"""Most seconds before an entry is tried again that lost its devices to another run: the pause doubles."""
TRIES = 3
"""Refused starts after which an entry is paused."""

Report = Callable[[str], None]


class ServerRunsError(QueueError):
    """The home has a server already."""


def serve(home: Path, ui: Ui, report: Report, stopped: threading.Event) -> None:
    """Start entries of the queue until `stopped` is set.

    Args:
        home: TORCHDECK_HOME.
        ui: the front end; it is not asked for logins.
        report: called with each thing that the server does, as a sentence.
        stopped: ends the server, after a start that is under way.

    Raises:
        ServerRunsError: another server has this home.
        NewerQueueError: a newer Torchdeck wrote the queue.
        QueueError: the queue cannot be read or written at the start. Later this is reported and tried again.
    """
    with _only_server(home):
        server = QueueServer(home, ui, report)
        try:
            server.recover()
            report(f"serving the queue of {home}")
            problem = ""
            while not stopped.is_set():
                more, found = _looked(server)
                if found and found != problem:
                    report(f"{found} (the server tries again)")
                problem = found
                if not more:
                    stopped.wait(TICK)
        finally:
            server.close()
    report("stopped; runs that were started continue")


def _looked(server: QueueServer) -> tuple[bool, str]:
    """Return whether there may be more to do at once, and why the queue cannot be read or written now."""
    try:
        return server.look(), ""
    except NewerQueueError:
        raise
    except QueueError as error:  # a full disk: runs continue, and the others start later
        return False, str(error)


@contextmanager
def _only_server(home: Path) -> Iterator[None]:
    path = Home(home).queue_lock
    try:
        own = ProcessIdentity.of(os.getpid())
        lock = try_lock(path, None if own is None else own.to_json())
    except OSError as error:
        raise QueueError(f"{path} cannot be locked", error.strerror or error) from error
    if lock is None:
        owner = read_json(path)
        pid = f", process {owner.get('pid')}" if isinstance(owner, dict) else ""
        raise ServerRunsError(f"a server of this queue runs already{pid}", fix="`torchdeck queue list`")
    try:
        yield
    finally:
        os.close(lock)


class _Refused(NamedTuple):
    """Starts of an entry that were refused."""

    tries: int
    again: float
    """Monotonic time of the next try."""
    why: str


class QueueServer:
    """Looks at queue, runs and machines, and starts what can start; from one thread.

    Args:
        home: TORCHDECK_HOME.
        ui: the front end.
        report: called with each thing that it does.
    """

    def __init__(self, home: Path, ui: Ui, report: Report) -> None:
        self._home, self._ui, self._report = home, ui, report
        self._connector: Connector = ui.connector(home)
        self._watch = MachineWatch(self._connector)
        self._runs = KnownRuns(home)
        self._queue, self._read = Queue(), (-1, -1, -1)
        self._inventory, self._resolved = NodeInventory(), ((-1, -1, -1), (-1, -1))
        self._asks: dict[str, Ask] = {}
        self._names: frozenset[str] = frozenset()
        self._decided: tuple[Situation, Schedule] | None = None
        self._refused: dict[str, _Refused] = {}
        self._losses: dict[str, int] = {}
        """Entry → how often another run was faster."""
        self._controllers: list[DetachedProcess] = []
        self._problems: tuple[str, ...] = ()

    def recover(self) -> None:
        """Put right starts that were left in between: by a killed server, or by a failed write.

        Raises:
            QueueError: the queue cannot be read or written.
        """
        for entry in recover(read_queue(self._home), self._home):
            what = f"runs as {entry.run}" if entry.run else "was not started, and waits again"
            self._report(f"{entry.id} ({entry.name}) {what}")

    def close(self) -> None:
        """Disconnect all nodes."""
        self._watch.close()

    def look(self) -> bool:
        """Look once, and start at most one entry; return whether there may be more to do at once.

        Raises:
            QueueError: the queue cannot be read or written.
        """
        self._controllers = [each for each in self._controllers if each.exit_code() is None]
        self._read_queue()
        if any(entry.stage is Stage.STARTING for entry in self._queue.entries):
            self.recover()
            self._read_queue()
        runs = self._runs.look(wanted_runs(self._queue))
        if self._note_ends(runs):
            self._read_queue()
            runs = self._runs.look(wanted_runs(self._queue))
        situation = self._situation(runs)
        if self._decided is not None and self._decided[0] == situation:
            return False
        found = decide(situation, time.time())
        with suppress(OSError):  # it is only shown
            write_status(self._home, found.waits, self._problems)
        # a start whose write fails leaves the situation as it is, and is decided again
        self._decided = None if found.starts else (situation, found)
        for entry_id, places in found.starts.items():
            self._start(situation.queue.find(entry_id), places)
            return True
        return False

    def _read_queue(self) -> None:
        """Read the queue if its file has changed."""
        try:
            found = Home(self._home).queue.stat()
            stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
        except OSError:
            stamp = (0, 0, 0)
        if stamp == self._read:
            return
        queue = read_queue(self._home)
        for what in queue.damage:
            if what not in self._queue.damage:
                self._report(what)
        self._queue, self._read = queue, stamp

    def _note_ends(self, runs: dict[str, RunNow | None]) -> bool:
        """Write which runs are over; return whether any is."""
        ended = [
            after
            for entry in self._queue.entries
            if entry.stage is Stage.RUNNING and (after := _ended(entry, runs[entry.run])) is not None
        ]
        if not ended:
            return False

        def change(queue: Queue) -> Queue:
            for entry in ended:
                queue = queue.with_entry(entry)
            return queue

        change_queue(self._home, change)
        for entry in ended:
            losses = self._losses.pop(entry.id, 0)
            if not entry.is_over:
                self._losses[entry.id] = losses + 1
                self._refused[entry.id] = _Refused(0, time.monotonic() + pause_after(losses), entry.note)
            what = f"is over: {entry.outcome}" if entry.is_over else f"waits again: {entry.note}"
            self._report(f"{entry.id} ({entry.name}) {what}")
        return True

    def _situation(self, runs: dict[str, RunNow | None]) -> Situation:
        stamp = (self._read, self._connector.stamp())
        if stamp != self._resolved:
            self._resolve()
            self._resolved = stamp
        own = {entry.run for entry in self._queue.entries if entry.has_devices}
        look = self._watch.look(self._names, self._inventory, self._queue.limits, own)
        return Situation(self._queue, self._asks, look.machines, look.others, runs, self._held())

    def _resolve(self) -> None:
        """Find the nodes that entries may use; without a valid node inventory there is this machine alone."""
        problem = ""
        try:
            self._inventory = self._connector.node_inventory()
        except Refusal as error:
            self._inventory, problem = NodeInventory(), str(error)
        self._asks = {entry.id: resolved(entry.ask, self._inventory) for entry in self._queue.waiting()}
        self._names = frozenset(name for ask in self._asks.values() for name in ask.nodes)
        self._problems = tuple(filter(None, (problem, *self._queue.damage)))

    def _held(self) -> dict[str, str]:
        """Return the entries whose start was refused not long ago."""
        now = time.monotonic()
        return {
            entry_id: f"it is tried again soon: {refused.why}"
            for entry_id, refused in self._refused.items()
            if now < refused.again
        }

    def _start(self, entry: Entry, places: Places) -> None:
        """Start an entry. Raises QueueError."""
        where = ", ".join(_place_text(node, gpus) for node, gpus in places)
        try:
            started = start_entry(entry, places, self._home, self._ui, time.time())
        except ChangedError:
            return
        except QueueError:  # not the entry's fault
            raise
        except Refusal as error:
            self._refuse(entry, str(error))
            return
        self._refused.pop(entry.id, None)
        self._controllers.append(started.controller)
        self._report(f"{entry.id} ({entry.name}) started as {started.layout.root.name} on {where}")

    def _refuse(self, entry: Entry, why: str) -> None:
        """Try an entry again later, or pause it."""
        before = self._refused.get(entry.id)
        tries = 1 if before is None else before.tries + 1
        self._refused[entry.id] = _Refused(tries, time.monotonic() + AGAIN_AFTER, why)
        if tries < TRIES:
            self._report(f"{entry.id} ({entry.name}) could not start, and is tried again: {why}")
            return

        def pause(queue: Queue) -> Queue:
            changed = (
                replace(each, paused=True) if each.id == entry.id and each.stage is Stage.WAITING else each
                for each in queue.entries
            )
            return replace(queue, entries=tuple(changed))

        change_queue(self._home, pause)
        self._refused.pop(entry.id)
        self._report(f"{entry.id} ({entry.name}) is paused, as it could not start: {why}")


def pause_after(losses: int) -> float:
    """Return the pause in seconds of an entry that lost its devices, after so many earlier losses."""
    return min(LONGEST_PAUSE, AGAIN_AFTER * 2.0 ** min(losses, 10))


def _ended(entry: Entry, run: RunNow | None) -> Entry | None:
    """Return an entry after its run is over; None while it is not."""
    if run is None:
        return replace(entry, stage=Stage.ENDED, outcome="DELETED", ended=time.time())
    if not run.is_over:
        return None
    if run.refused:  # another run was faster: nothing of it has run
        return entry.waiting_again(run.why)
    return replace(entry, stage=Stage.ENDED, outcome=run.state, ended=run.ended or time.time(), note=run.why)


def _place_text(node: str, gpus: tuple[int, ...]) -> str:
    if not gpus:
        return f"{node} (CPU)" if node != LOCALHOST else "this machine (CPU)"
    return f"{node} (GPU {', '.join(map(str, gpus))})"
