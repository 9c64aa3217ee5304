"""Pending requests: written, and tracked off the GUI thread until an agent has them."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from PySide6.QtCore import QObject

from torchdeck.agent.processes.detached_process import DetachedProcess
from torchdeck.runs.follower import RunFollower
from torchdeck.use_cases.stop import PendingStop
from torchdeck_app.bridge.background_loop import Poller

INTERVAL = 0.5


@dataclass(frozen=True)
class Carried:
    """Pending requests as (run id, request) and failures as (run id, sentence)."""

    waiting: frozenset[tuple[str, str]]
    errors: tuple[tuple[str, str], ...] = ()
    arrived: int = 0
    """Number of requests that have arrived so far, which includes those that arrived between two polls."""


class _Errand:
    """Request in transit."""

    def __init__(self, pending: PendingStop) -> None:
        self.pending = pending
        self._follower = RunFollower(pending.layout)

    def is_done(self) -> bool:
        """Whether an agent has it, or nothing continues; starts a controller if there is none. Blocks."""
        if not self.pending.layout.root.exists():
            return True
        view = self._follower.refresh()
        ended = view.is_over and not view.nodes_alone
        if ended or self._follower.has_taken(self.pending.request_id):
            return True
        self.pending.look(view)
        return False


class RequestCarriers(Poller[Carried]):
    """Poller that tracks requests while there are any, and reaps the controllers this window started."""

    def __init__(self, parent: QObject | None = None) -> None:
        self._lock = threading.Lock()
        self._errands: list[_Errand] = []
        self._controllers: list[DetachedProcess] = []
        self._arrived = 0
        super().__init__("requests", self._carry, INTERVAL, parent)

    def add(self, pending: PendingStop) -> None:
        """See to it that the request arrives; from any thread."""
        errand = _Errand(pending)
        with self._lock:
            self._errands.append(errand)
        self.poke()

    def add_controller(self, controller: DetachedProcess) -> None:
        """Reap a controller when it exits, so that it does not look alive; from any thread."""
        with self._lock:
            self._controllers.append(controller)

    @property
    def under_way(self) -> frozenset[tuple[str, str]]:
        """Return the pending requests as (run id, request); from any thread."""
        with self._lock:
            return frozenset((each.pending.layout.root.name, each.pending.kind) for each in self._errands)

    def _carry(self) -> Carried:
        """Do the work, in the thread."""
        with self._lock:
            errands = list(self._errands)
            self._controllers = [each for each in self._controllers if each.exit_code() is None]
        done, errors = [], []
        for errand in errands:
            try:
                if errand.is_done():
                    done.append(errand)
            except Exception as error:  # noqa: BLE001 - whatever it is: the run's page says it
                done.append(errand)
                errors.append((errand.pending.layout.root.name, f"the request cannot be delivered: {error}"))
        with self._lock:
            self._errands = [errand for errand in self._errands if errand not in done]
        self._arrived += len(done)
        return Carried(self.under_way, tuple(errors), self._arrived)
