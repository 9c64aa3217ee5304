"""A bound on memory for traces that need real tensors."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MAX_PARAMETERS = 200_000_000
"""Models up to this size are traced with real tensors where tensors without memory do not do."""
MAX_BYTES = 8 * 2**30
"""Memory that such a trace may take."""

_STATUS = Path("/proc/self/status")


@contextmanager
def bounded_memory(size: int = MAX_BYTES) -> Iterator[None]:
    """Let allocations fail that would take `size` bytes more than this process has; better than swapping."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = _data_bytes() + size
    if before[1] != resource.RLIM_INFINITY:
        wanted = min(wanted, before[1])
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _data_bytes() -> int:
    """What counts for the limit now."""
    for line in _STATUS.read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "VmData":
            return int(rest.split()[0]) * 1024
    return 0
