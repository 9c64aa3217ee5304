"""The machine's own numbers, from /proc: processors, memory, disk, network. Linux, proc(5)."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from torchdeck.contract.free_space import free_bytes
from torchdeck.contract.processes import PROC, read_stat

_PAGE = os.sysconf("SC_PAGE_SIZE")
_MEMORY_SHARE = 100.0
"""Pause between two readings of the ranks' memory, as a multiple of what one takes."""


class MachineSampler:
    """Gives a row of numbers per call; rates are over the time since the last call.

    Series: cpu_percent (of all cores together, 0 to 100), memory_used_bytes, memory_total_bytes,
    disk_free_bytes, net_rx_bytes_per_s, net_tx_bytes_per_s (all interfaces but loopback).
    """

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._cpu = _cpu_ticks()
        self._net = _net_bytes()
        self._time = time.monotonic()

    def sample(self) -> dict[str, float]:
        """The row; what the kernel does not show is left out."""
        now = time.monotonic()
        seconds, self._time = max(1e-3, now - self._time), now
        values = {**_memory(), "disk_free_bytes": float(free_bytes(self._run_dir))}
        cpu = _cpu_ticks()
        total = cpu[1] - self._cpu[1]
        if total > 0:
            # the kernel may take waiting for a disk back, and then more is busy than there was (proc(5))
            values["cpu_percent"] = 100.0 * min(1.0, max(0.0, (cpu[0] - self._cpu[0]) / total))
        self._cpu = cpu
        net = _net_bytes()
        values["net_rx_bytes_per_s"] = max(0.0, (net[0] - self._net[0]) / seconds)
        values["net_tx_bytes_per_s"] = max(0.0, (net[1] - self._net[1]) / seconds)
        self._net = net
        return values


def machine_memory() -> tuple[int, int]:
    """Bytes of main memory: total, and available to new processes; 0 if the kernel does not report it."""
    found = dict.fromkeys(("MemTotal:", "MemAvailable:"), 0)
    with contextlib.suppress(OSError):
        for name, number, *_ in map(str.split, (PROC / "meminfo").read_text().splitlines()):
            if name in found:
                found[name] = int(number) * 1024
    return found["MemTotal:"], found["MemAvailable:"]


class RankMemory:
    """`rank_memory`, as often as its cost allows: the kernel walks through all pages of the processes."""

    def __init__(self) -> None:
        self._last: dict[int, int] = {}
        self._due = 0.0

    def __call__(self, pids: Mapping[int, int]) -> dict[int, int]:
        """rank → bytes, of now or of a moment ago."""
        begun = time.monotonic()
        if begun >= self._due or not pids.keys() <= self._last.keys():
            self._last = rank_memory(pids)
            took = time.monotonic() - begun
            self._due = begun + took + _MEMORY_SHARE * took
        return {rank: size for rank, size in self._last.items() if rank in pids}


def rank_memory(pids: Mapping[int, int]) -> dict[int, int]:
    """rank → bytes of its process and all below it, data-loader workers included; those gone are left out.

    Pages that several of them share are divided among the processes that map them (PSS): a worker that was
    forked counts for what it has of its own.
    """
    trees = _trees(pids.values()) if pids else {}
    found = {}
    for rank, pid in pids.items():
        sizes = [size for each in (pid, *trees.get(pid, ())) if (size := _own_memory(each)) is not None]
        if sizes:
            found[rank] = sum(sizes)
    return found


def _trees(roots: Iterable[int]) -> dict[int, list[int]]:
    """Root → all processes below it."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdecimal() and (stat := read_stat(int(entry.name))) is not None:
            children.setdefault(stat.parent, []).append(stat.pid)
    found = {}
    for root in roots:
        below = list(children.get(root, ()))
        for pid in below:  # grows
            below += children.get(pid, ())
        found[root] = below
    return found


def _own_memory(pid: int) -> int | None:
    """Bytes of one process; resident ones if the kernel does not show shared pages divided."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        for line in (PROC / f"{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int((PROC / f"{pid}/statm").read_text().split()[1]) * _PAGE
    return None


def _cpu_ticks() -> tuple[int, int]:
    """(busy, all) clock ticks of all processors since boot."""
    with (PROC / "stat").open() as file:
        numbers = [int(word) for word in file.readline().split()[1:9]]
    idle = numbers[3] + numbers[4]  # idle and iowait
    return sum(numbers) - idle, sum(numbers)


def _memory() -> dict[str, float]:
    total, available = machine_memory()
    return {"memory_total_bytes": float(total), "memory_used_bytes": float(total - available)}


def _net_bytes() -> tuple[int, int]:
    received = sent = 0
    try:
        lines = (PROC / "net/dev").read_text().splitlines()[2:]
    except OSError:
        return 0, 0
    for line in lines:
        name, _, rest = line.partition(":")
        fields = rest.split()
        if name.strip() != "lo" and len(fields) >= 9:
            received += int(fields[0])
            sent += int(fields[8])
    return received, sent
