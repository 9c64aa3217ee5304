"""Facts of /proc on a rank and its children: processor time, bytes read and written, states."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.processes import PROC, read_stat

MOST_CHILDREN = 256
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_STATES = {
    "T": "stopped (SIGSTOP)",
    "t": "held by a debugger",
    "D": "waiting for a disk or a network file system",
    "Z": "dead",
}


class Usage(NamedTuple):
    """Sums over a process and its children."""

    cpu: float
    """Seconds of processor time."""
    own: float
    """Those of the process itself."""
    memory: int
    """Resident bytes of the process itself."""
    bytes: int
    """Read and written, by system calls for files, pipes and sockets."""


def tree(pid: int) -> list[int]:
    """Return the process and its living descendants."""
    found: list[int] = []
    waiting = [pid]
    while waiting and len(found) < MOST_CHILDREN:
        process = waiting.pop()
        found.append(process)
        with contextlib.suppress(OSError, ValueError):
            for task in (PROC / str(process) / "task").iterdir():
                waiting += [int(child) for child in (task / "children").read_text().split()]
    return found


def usage(pid: int) -> Usage:
    """Return what a process and its children have used since they began."""
    cpu, own, moved = 0, 0, 0
    for process in tree(pid):
        stat = read_stat(process)
        ticks = 0 if stat is None else stat.cpu_ticks
        cpu += ticks
        own += ticks if process == pid else 0
        with contextlib.suppress(OSError, ValueError):
            for line in (PROC / str(process) / "io").read_text().splitlines():
                if line.startswith(("rchar:", "wchar:")):
                    moved += int(line.partition(":")[2])
    return Usage(cpu / _TICKS, own / _TICKS, _resident(pid), moved)


def _resident(pid: int) -> int:
    words = _read(PROC / str(pid) / "statm").split()
    return int(words[1]) * _PAGE if len(words) > 1 else 0


def state(pid: int | None) -> str:
    """Return the state of a process as in proc(5); `gone` if there is none, empty if it is not known."""
    if pid is None:
        return ""
    stat = read_stat(pid)
    return "gone" if stat is None else stat.state


def catches(pid: int, number: int) -> bool:
    """Return whether a process has a handler for a signal: without one, the signal would end it."""
    with contextlib.suppress(OSError, ValueError):
        for line in (PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.partition(":")[2], 16) >> (number - 1) & 1)
    return False


def kernel_wait(pid: int) -> str:
    """Return the kernel's function in which the main thread waits, and the file if it is known."""
    function = wait_channel(pid)
    words = _read(PROC / str(pid) / "syscall").split()
    file = ""
    with contextlib.suppress(OSError, ValueError, IndexError):
        file = str((PROC / str(pid) / "fd" / str(int(words[1], 16))).readlink())
    return " of ".join(part for part in (function, file) if part)


def wait_channel(pid: int) -> str:
    """Return the kernel's function in which the main thread waits; empty if it does not, or is not known."""
    function = _read(PROC / str(pid) / "wchan")
    return function if function != "0" else ""


def workers(pid: int) -> str:
    """Return what is wrong with a rank's child processes, such as a data loader's workers."""
    found = []
    for child in tree(pid)[1:]:
        letter = state(child)
        if letter in _STATES:
            found.append(f"process {child} is {_STATES[letter]}")
    return "; ".join(found[:4])


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
