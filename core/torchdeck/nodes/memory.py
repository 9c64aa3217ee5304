"""Main memory of this machine: what this user's processes may have, and what of it is free."""

from __future__ import annotations

from pathlib import Path

import psutil

_CGROUP = Path("/sys/fs/cgroup")


def main_memory(cgroup: Path = _CGROUP) -> tuple[int, int]:
    """Bytes in all and bytes free: the machine's, cut by the container's limit (cgroup v2 `memory.max`).

    Of a container's memory, file cache that was not used lately counts as free, since the kernel drops it
    when memory is asked for (`inactive_file` in `memory.stat`).
    """
    machine = psutil.virtual_memory()
    try:
        limit = int((cgroup / "memory.max").read_text())
        used = int((cgroup / "memory.current").read_text())
        cached = _statistic((cgroup / "memory.stat").read_text(), "inactive_file")
    except (OSError, ValueError):
        return machine.total, machine.available  # no limit ("max"), or no cgroup v2
    free = max(0, limit - max(0, used - cached))
    return min(machine.total, limit), min(machine.available, free)


def _statistic(text: str, name: str) -> int:
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0
