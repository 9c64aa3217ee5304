"""This machine, as a node."""

from __future__ import annotations

import os
from pathlib import Path

from torchdeck.nodes.gpus import probe_gpus
from torchdeck.nodes.inventory import NodeInfo
from torchdeck.nodes.memory import main_memory

_CGROUP_CPU = Path("/sys/fs/cgroup/cpu.max")


def probe_local(name: str = "localhost") -> NodeInfo:
    """What this machine has, for a node called `name`; tens of milliseconds at most where there is no GPU."""
    memory, free = main_memory()
    return NodeInfo(
        name=name,
        address="127.0.0.1",
        devices=probe_gpus(),
        cpu_count=usable_cores(),
        memory_bytes=memory,
        free_bytes=free,
    )


def usable_cores(quota_file: Path = _CGROUP_CPU) -> int:
    """Cores that this process may use: its affinity, cut by the container's quota (cgroup v2 `cpu.max`)."""
    cores = len(os.sched_getaffinity(0))
    try:
        quota, period = quota_file.read_text().split()
        return max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError, ZeroDivisionError):
        return cores  # no quota ("max"), or no cgroup v2
