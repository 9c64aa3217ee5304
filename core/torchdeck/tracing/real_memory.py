"""A bound on memory for traces that need real tensors."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MAX_PARAMETERS = 200_000_000
"""Models up to this size are traced with real tensors where tensors without memory do not do."""
MAX_BYTES = 8 * 2**30
"""Memory that building and tracing so may take, and at most half of what is available."""

_STATUS = Path("/proc/self/status")
_MEMINFO = Path("/proc/meminfo")


@contextmanager
def bounded_memory(size: int = MAX_BYTES) -> Iterator[None]:
    """Let allocations fail that would take `size` bytes more than this process has, or half of what the
    machine has left; better than swapping."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = _kilobytes(_STATUS, "VmData", 0) + min(size, _kilobytes(_MEMINFO, "MemAvailable", 2 * size) // 2)
    if before[1] != resource.RLIM_INFINITY:
        wanted = min(wanted, before[1])
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _kilobytes(file: Path, wanted: str, default: int) -> int:
    """The value of a line like `VmData: 5 kB`, in bytes; `default` where there is none."""
    for line in file.read_text(encoding="ascii", errors="replace").splitlines():
        name, _, rest = line.partition(":")
        if name == wanted:
            return int(rest.split()[0]) * 1024
    return default
