"""The thread of a rank that writes its heartbeat, and its stacks when the agent asks for them."""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import IO, Any

from torchdeck.contract.atomic import write_bytes
from torchdeck.contract.doctor.rank_heartbeat import INTERVAL, RankHeartbeat, RankHeartbeatFile
from torchdeck.contract.layout import AttemptLayout
from torchdeck.contract.rank_layout import RankLayout
from torchdeck.telemetry.doctor.arrivals import ArrivalReports
from torchdeck.telemetry.doctor.flight_recorder import (
    Counts,
    counts,
    group_names,
    shortest_timeout,
    summary,
    whole,
)
from torchdeck.telemetry.doctor.gloo_workers import wait_until_idle
from torchdeck.telemetry.doctor.graph_captures import spare_captures
from torchdeck.telemetry.doctor.main_thread import MainThread
from torchdeck.telemetry.doctor.profiling import RankProfiler
from torchdeck.telemetry.doctor.recorder_lock import RecorderLock
from torchdeck.telemetry.doctor.thread_stacks import has_gil

STACK_SIGNAL = signal.SIGRTMIN + 9
"""Programs use SIGUSR1 and SIGUSR2 themselves (Slurm's requeue, submitit); this one none that we know."""
END_LIMIT = 1.0
"""Seconds for the thread to end with the program."""

_OTHER_TORCH = (ValueError, LookupError, TypeError, AttributeError, RuntimeError)
"""Another version of torch has another recorder."""
MOST_FAILED = 4
"""Failed heartbeats in a row after which the thread ends: before the agent takes the rank for stopped."""


class RankHeartbeatThread(threading.Thread):
    """Writes the heartbeat of this process's rank; whatever fails ends the heartbeat, not the program."""

    def __init__(self, layout: RankLayout, arrivals: ArrivalReports | None = None) -> None:
        """Open the files.

        Args:
            layout: files of the rank.
            arrivals: reports on its arrivals at collectives, if they are not the usual ones.

        Raises:
            OSError: they cannot be written.
        """
        super().__init__(name="torchdeck-heartbeat", daemon=True)
        self._layout = layout
        self._file = RankHeartbeatFile(layout.heartbeat)
        self._stacks: IO[bytes] = layout.stacks.open("ab")
        self._main = MainThread()
        self._ending = threading.Event()
        self._recorder = RecorderLock()
        self._answered = ""
        self._enqueued = 0
        self._groups, self._timeout = 0, 0.0
        self._names: dict[str, str] = {}
        """torch's id of a process group → name."""
        self._arrivals = arrivals or ArrivalReports(layout.arrivals)
        self._profiler = RankProfiler(layout)
        self._ours = True
        if not faulthandler.is_enabled():  # a crash leaves its Python line in stderr.log
            faulthandler.enable()
        faulthandler.register(STACK_SIGNAL, file=self._stacks, all_threads=has_gil())
        atexit.register(self.end)

    def run(self) -> None:
        """Write a heartbeat every second."""
        failed = 0
        while failed < MOST_FAILED:
            failed = 0 if self._has_beaten() else failed + 1
            with contextlib.suppress(Exception):  # a disk may be full; the next request may be answered
                self._answer()
            with contextlib.suppress(Exception):  # torch may be half imported
                self._profiler.look()
            if self._has_ended_within(INTERVAL):
                return
        with contextlib.suppress(OSError):  # a heartbeat that stays the same would be taken for a hang
            self._layout.heartbeat.unlink(missing_ok=True)

    def _has_ended_within(self, seconds: float) -> bool:
        """Sleep; reports on arrivals are written at their own times meanwhile."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._ending.wait(self._arrivals.wait(left)):
                return True
            with contextlib.suppress(Exception):  # another version of torch, a full disk
                self._arrivals.report(self._enqueued, self._recorded)
        return False

    def _recorded(self) -> bytes:
        with self._recorder:
            return _whole()

    def _has_beaten(self) -> bool:
        try:
            self.beat()
        except Exception:  # noqa: BLE001 - torch's API may change, a disk may be full
            return False
        return True

    def beat(self) -> None:
        """Write one heartbeat."""
        with self._recorder:
            found = _counts()
        self._enqueued = found.enqueued
        if found.groups != self._groups:  # a further group may have another one
            self._groups, self._timeout = found.groups, shortest_timeout()
            self._names |= _group_names(self._recorded())
        sample = self._main.sample(found.enqueued)
        self._file.write(
            RankHeartbeat(
                os.getpid(),
                time.monotonic(),
                found.enqueued,
                found.completed,
                found.groups,
                activity=sample.activity,
                place=sample.place,
                places=sample.places,
                computes=sample.computes,
                signal=self._signal(),
                timeout=self._timeout,
                by_group=found.by_group(self._names),
            )
        )

    def _signal(self) -> int:
        """Return the signal, unless the program has a handler of its own for it now."""
        if self._ours and signal.getsignal(STACK_SIGNAL) not in (signal.SIG_DFL, None):
            self._ours = False
        return STACK_SIGNAL if self._ours else 0

    def _answer(self) -> None:
        """Write stacks and collectives where the agent asks for them."""
        try:
            asked = os.fsdecode(self._layout.examine.read_bytes())  # a path, which need not be UTF-8
        except OSError:
            return
        if asked == self._answered:
            return
        self._answered = asked
        folder = Path(asked.partition("\n")[0])
        files = AttemptLayout.of_rank(self._layout).examination(folder.name)
        if folder != files.root:
            return
        rank = int(self._layout.root.name)
        recorded = self._recorded()
        answer = {"pid": os.getpid(), "threads": self._main.all_threads(), **_summary(recorded)}
        write_bytes(files.answer(rank), json.dumps(answer).encode(), durable=False, private=True)
        if recorded:
            write_bytes(files.flight_recorder(rank), recorded, durable=False, private=True)

    def end(self) -> None:
        """End with the program: a thread that is in torch when Python ends would abort the process."""
        self._ending.set()
        self._profiler.end()
        if self.is_alive():
            self.join(END_LIMIT)
        with contextlib.suppress(Exception):  # /proc may be closed
            wait_until_idle(END_LIMIT)


def _counts() -> Counts:
    try:
        return counts()
    except _OTHER_TORCH:
        return Counts()


def _group_names(recorded: bytes) -> dict[str, str]:
    try:
        return group_names(recorded)
    except _OTHER_TORCH:
        return {}


def _whole() -> bytes:
    try:
        return whole() if spare_captures() else b""
    except _OTHER_TORCH:
        return b""


def _summary(recorded: bytes) -> dict[str, Any]:
    try:
        return summary(recorded)
    except _OTHER_TORCH:
        return {}


def start_heartbeat(layout: RankLayout | None) -> None:
    """Start the heartbeat of this process's rank; never raises.

    Args:
        layout: files of the rank; None outside a run.
    """
    if layout is not None:
        with contextlib.suppress(Exception):  # the program runs without it
            RankHeartbeatThread(layout).start()
