"""Ends what is left of a run on a node, and nothing else: by torchrun's tree and the run's id in
environments."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from torchdeck.contract.bounded_file import read_number
from torchdeck.contract.processes import PROC, ProcessIdentity, descendants, processes_of_run, read_stat

_TICK = 0.02


class OrphanCleanup:
    """SIGTERM, a grace, SIGKILL, until nothing is left; each `step` looks once.

    Attributes:
        killed: processes that got SIGKILL.
    """

    def __init__(
        self,
        run_id: str,
        torchrun: ProcessIdentity | None,
        grace: float,
        limit: float,
        now: float,
        node: str = "",
    ) -> None:
        """Begin.

        Args:
            run_id: whose processes.
            torchrun: root of the tree, if still there; a process that hid its environment is found under it.
            grace: seconds between SIGTERM and SIGKILL; 0 kills at once.
            limit: seconds after which processes that SIGKILL does not end are given up.
            now: monotonic seconds.
            node: spare those that say they are another node's of the run.
        """
        self._run_id = run_id
        self._node = node
        self._torchrun = torchrun
        self._kill_at = now + grace
        self._give_up_at = now + grace + limit
        self._told: set[ProcessIdentity] = set()
        self._known: set[ProcessIdentity] = set()
        self._killed: set[ProcessIdentity] = set()

    @property
    def killed(self) -> int:
        return len(self._killed)

    def remember(self, processes: Iterable[ProcessIdentity]) -> None:
        """Processes seen in the tree while it was whole: finds orphans that hid their environment."""
        self._known.update(processes)

    def step(self, now: float) -> int | None:
        """Look and signal; None while processes are left, else how many could not be ended."""
        alive = self.survivors()
        if not alive:
            return 0
        if now >= self._give_up_at:
            return len(alive)
        for process in alive:
            if now >= self._kill_at:
                process.send(signal.SIGKILL)
                self._killed.add(process)
            elif process not in self._told:
                process.send(signal.SIGTERM)
                self._told.add(process)
        return None

    def finish(self) -> int:
        """Step until it is over, with `now` of `time.monotonic`; return how many could not be ended."""
        while (left := self.step(time.monotonic())) is None:
            time.sleep(_TICK)
        return left

    def survivors(self) -> list[ProcessIdentity]:
        """Living processes of the run, the agent and its parents never among them."""
        spared = _self_and_parents()
        found = dict.fromkeys(processes_of_run(self._run_id, exclude=spared, node=self._node))
        if self._torchrun is not None and self._torchrun.is_alive():
            found[self._torchrun] = None
            found.update(dict.fromkeys(descendants(self._torchrun.pid)))
        for process in self._known:
            if process.is_alive():
                found[process] = None
                found.update(dict.fromkeys(descendants(process.pid)))
        self._known.update(found)
        return [process for process in found if process.pid not in spared]


def kill_all(run_id: str, torchrun: ProcessIdentity | None, node: str = "") -> int:
    """SIGKILL to everything of the run, once; how many got it. SIGKILL ends stopped processes too."""
    sweep = OrphanCleanup(run_id, torchrun, 0.0, 0.0, 0.0, node)
    alive = sweep.survivors()
    for process in alive:
        process.send(signal.SIGKILL)
    return len(alive)


def _self_and_parents() -> set[int]:
    spared = {os.getpid()}
    pid = os.getppid()
    while pid > 1 and pid not in spared:
        spared.add(pid)
        stat = read_stat(pid)
        pid = stat.parent if stat is not None else 0
    return spared


INTERVAL = 10.0
"""Seconds between two looks."""


_RANK_DIGITS = 6


class TorchrunTree:
    """Living processes that one attempt's torchrun has started."""

    def __init__(self, interval: float = INTERVAL) -> None:
        self.processes: set[ProcessIdentity] = set()
        self._interval = interval
        self._due = 0.0

    @property
    def is_due(self) -> bool:
        """It has not been looked at for a while."""
        return time.monotonic() >= self._due

    def look(self, torchrun: ProcessIdentity | None) -> None:
        """Look now; what was seen is kept once torchrun is gone."""
        self._due = time.monotonic() + self._interval
        if torchrun is not None and torchrun.is_alive():
            self.processes = {process for process in self.processes if process.is_alive()}
            self.processes.update(descendants(torchrun.pid))

    def ranks(self, spawned: Path) -> dict[int, int]:
        """Return rank → process; the first of several.

        Args:
            spawned: folder in which processes write their rank, if they have no variable RANK from the start.
        """
        found: dict[int, int] = {}
        for process in sorted(self.processes):
            rank = _rank_of(process.pid)
            if rank is None:
                rank = read_number(spawned / str(process.pid))
            if rank is not None and process.is_alive():
                found.setdefault(rank, process.pid)
        return dict(sorted(found.items()))


def _rank_of(pid: int) -> int | None:
    try:
        variables = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return None
    found = next((each[5:] for each in variables if each.startswith(b"RANK=")), b"")
    return int(found) if found.isdigit() and len(found) <= _RANK_DIGITS else None
