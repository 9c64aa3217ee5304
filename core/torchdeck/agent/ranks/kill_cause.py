"""Cause of a SIGKILL: the kernel, because memory ran out, or another process.

Sources: `oom_kill` in /proc/vmstat (proc_vmstat(5), Linux 4.13), in a cgroup's memory.events (version 2) or
memory.oom_control (version 1), the kernel log (/dev/kmsg, if this user may read it), and memory as it was
sampled while the ranks lived.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections import deque
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from torchdeck.agent.gang.events import Failure
from torchdeck.agent.machine import machine_memory
from torchdeck.contract.doctor.rank_heartbeat import read_rank_heartbeat
from torchdeck.contract.layout import AttemptLayout
from torchdeck.contract.metrics.progress import read_progress
from torchdeck.contract.processes import PROC

SAMPLE_INTERVAL = 0.25
"""Seconds between two samples of free memory."""
SAMPLED = 15.0
"""Seconds of samples that are kept: the last ones before the end count."""
LOW = 0.1
"""Share of the memory; with more available it has not run out."""
LOG_LIMIT = 4096
"""Most records of the kernel log that are read."""
CGROUPS = Path("/sys/fs/cgroup")
KERNEL_LOG = Path("/dev/kmsg")
_GIB = 1 << 30
_KILLED = re.compile(r"[Oo]ut of memory: Kill(?:ed)? process (?P<pid>\d{1,9})\b")
_LOADER = re.compile(r"DataLoader worker \(pid\(?s?\)? (?P<pid>\d{1,9})\b[^)]*\) is killed by signal: Killed")


class Cause(Enum):
    """Sender of the signal."""

    MEMORY = 1
    """The kernel, as memory ran out."""
    OTHER = 2
    """Another process or a person."""
    LOW_MEMORY = 3
    """Unknown, while little memory was left."""
    UNKNOWN = 4


class KillCause(NamedTuple):
    """The cause, and its evidence in words."""

    cause: Cause
    evidence: str = ""

    def sentence(self, who: str) -> str:
        """Return who killed `who`, as a clause."""
        return {
            Cause.MEMORY: f"the kernel killed {who} because memory ran out ({self.evidence})",
            Cause.OTHER: f"another process killed {who}; memory had not run out ({self.evidence})",
            Cause.LOW_MEMORY: f"perhaps because memory ran out ({self.evidence})",
            Cause.UNKNOWN: f"another process killed {who}, or the kernel because memory ran out: see dmesg",
        }[self.cause]


class Room(NamedTuple):
    """Memory that was available at a time."""

    time: float
    """Monotonic seconds."""
    available: int
    total: int

    @property
    def share(self) -> float:
        return self.available / self.total


class Kills(NamedTuple):
    """Processes killed by the kernel as memory ran out, since boot; None: not known."""

    machine: int | None
    cgroup: int | None


class KillWitness:
    """Watches memory while an attempt runs."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._files = _cgroup_files()
        self._before: Kills | None = None
        self._begun = 0.0
        self._rooms: deque[Room] = deque()

    def begin(self) -> None:
        """An attempt begins now."""
        self._rooms.clear()
        self._begun, self._before = time.monotonic(), _kills(self._files)

    def adopt(self) -> None:
        """An attempt began under an earlier agent: what was killed before is not known."""
        self._rooms.clear()
        self._begun, self._before = 0.0, None

    def look(self) -> None:
        """Sample memory, at most four times a second."""
        now = self._clock()
        if self._rooms and now - self._rooms[-1].time < SAMPLE_INTERVAL:
            return
        room = _room(now, self._files)
        if room is not None:
            self._rooms.append(room)
        while self._rooms and now - self._rooms[0].time > SAMPLED:
            self._rooms.popleft()

    def cause(self, pid: int | None) -> KillCause:
        """Return why a process of the attempt got SIGKILL.

        Args:
            pid: the process; None if it is not known.
        """
        log = "" if self._before is None else _in_kernel_log(pid, self._begun)
        least = min(self._rooms, key=lambda room: room.share, default=None)
        return judge(self._before, _kills(self._files), log, least)


def judge(before: Kills | None, after: Kills, log: str, least: Room | None) -> KillCause:
    """Return the cause by its evidence. Pure.

    Args:
        before: kills when the attempt began; None if no one counted.
        after: kills now.
        log: the kernel's line on the process; empty if there is none.
        least: the sample with the least memory available.
    """
    if log:
        return KillCause(Cause.MEMORY, f"kernel log: {log}")
    in_cgroup = _more(None if before is None else before.cgroup, after.cgroup)
    if in_cgroup:
        return KillCause(Cause.MEMORY, f"its cgroup counts {in_cgroup} such kill{'s' * (in_cgroup > 1)}")
    if least is None:
        return KillCause(Cause.UNKNOWN)
    left = f"{least.available / _GIB:.1f} of {least.total / _GIB:.1f} GiB were available"
    if least.share < LOW:
        return KillCause(Cause.LOW_MEMORY, left)
    on_machine = _more(None if before is None else before.machine, after.machine)
    return KillCause(Cause.OTHER, left if on_machine != 0 else f"{left}, and the kernel killed no process")


def loader_worker(words: str) -> int | None:
    """Return the process id of a data-loader worker that, by a rank's last words, got SIGKILL."""
    found = _LOADER.search(words)
    return None if found is None else int(found["pid"])


def with_kill_cause(failure: Failure, attempt: AttemptLayout, witness: KillWitness) -> Failure:
    """Add who killed a rank, or its data-loader worker.

    Args:
        failure: of a rank on this node.
        attempt: its files.
        witness: of the attempt.
    """
    if failure.rank is not None and failure.signal == signal.SIGKILL:
        beat = read_rank_heartbeat(attempt.rank(failure.rank).heartbeat)
        progress = read_progress(attempt.rank(failure.rank).progress)
        pid = beat.pid if beat is not None else None if progress is None else progress.pid
        return failure._replace(message=f"ended by SIGKILL: {witness.cause(pid).sentence('it')}")
    worker = None if failure.signal else loader_worker(failure.message)
    if worker is None:
        return failure
    cause = witness.cause(worker).sentence("the worker")
    return failure._replace(message=f"{failure.message} (SIGKILL: {cause})")


def _more(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else max(0, after - before)


class _Cgroup(NamedTuple):
    """Files of this process's memory cgroup, of either version."""

    kills: Path
    used: Path
    limit: Path
    stat: Path


def _cgroup_files() -> _Cgroup | None:
    """Return the files that are there; a container may see its own cgroup as the root."""
    try:
        lines = (PROC / "self/cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            names = ("memory.oom_control", "memory.usage_in_bytes", "memory.limit_in_bytes", "memory.stat")
            root = CGROUPS / "memory"
        elif not controllers:
            names = ("memory.events", "memory.current", "memory.max", "memory.stat")
            root = CGROUPS
        else:
            continue
        for folder in (root / path.strip("/"), root):
            if (folder / names[0]).is_file():
                return _Cgroup(*(folder / name for name in names))
    return None


def _kills(files: _Cgroup | None) -> Kills:
    own = None if files is None else _field(files.kills, "oom_kill")
    return Kills(_field(PROC / "vmstat", "oom_kill"), own)


def _field(path: Path, name: str) -> int | None:
    """Return a number in a file of lines `NAME NUMBER`; None if it is not there."""
    with contextlib.suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            key, _, number = line.partition(" ")
            if key == name:
                return int(number)
    return None


def _room(now: float, files: _Cgroup | None) -> Room | None:
    """Return what is available: of the machine, or of the cgroup's limit if that is less."""
    total, available = machine_memory()
    rooms = [Room(now, available, total)] if total > 0 else []
    with contextlib.suppress(OSError, ValueError):  # "max" is no number: there is no limit
        if files is not None and 0 < (limit := int(files.limit.read_text())) < (total or 1 << 62):
            cached = _field(files.stat, "inactive_file") or 0
            used = int(files.used.read_text())
            rooms.append(Room(now, max(0, min(limit, limit - used + cached)), limit))
    return min(rooms, key=lambda room: room.share, default=None)


def _in_kernel_log(pid: int | None, since: float) -> str:
    """Return the kernel's line on a process that it killed for want of memory; empty if there is none.

    Format of the records: Documentation/ABI/testing/dev-kmsg, `PRIORITY,NUMBER,MICROSECONDS,-;TEXT`.

    Args:
        pid: process id, of this pid namespace; the kernel's may be another one, in a container.
        since: monotonic seconds.
    """
    if pid is None:
        return ""
    try:
        descriptor = os.open(KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    line = ""
    try:
        for _ in range(LOG_LIMIT):
            head, _, text = os.read(descriptor, 8192).decode("utf-8", "replace").partition(";")
            found = _KILLED.search(text)
            if found and int(found["pid"]) == pid and int(head.split(",")[2]) / 1e6 >= since - 1.0:
                line = text.splitlines()[0][:200]
    except (OSError, ValueError, IndexError):  # EAGAIN: that was all of it
        return line
    finally:
        os.close(descriptor)
    return line
