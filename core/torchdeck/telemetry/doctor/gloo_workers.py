"""gloo's worker threads at the end of a rank's process."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

WORKER = "pt_gloo_runner"
"""Name of the threads, as torch 2.13 sets it (ProcessGroupGloo.cpp)."""
_LOOK_EVERY = 0.002
_SLEEPING = "S"


def wait_until_idle(limit: float, threads: Path = Path("/proc/self/task")) -> bool:
    """Wait until gloo's workers sleep, so that Python can end.

    A worker releases the tensors of a collective after it has reported it as done. If Python ends in
    between, the worker can no longer get the interpreter's lock, and std::terminate aborts the process: a
    training that has ended would fail with SIGABRT. Destroying the process group does not help while DDP
    still holds it.

    Args:
        limit: seconds.
        threads: the folder that Linux has of a process's threads.

    Returns:
        Whether all workers slept twice in a row; in between others had the interpreter's lock.
    """
    until = time.monotonic() + limit
    idle = 0
    while idle < 2:  # a worker that waits for the lock sleeps, too, but gets it before the second look
        idle = idle + 1 if _all_sleep(threads) else 0
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_EVERY)
    return True


def _all_sleep(threads: Path) -> bool:
    for stat in threads.glob("*/stat"):
        with contextlib.suppress(OSError):  # the thread has ended
            name, _, rest = stat.read_text(errors="replace").partition("(")[2].rpartition(")")
            if name == WORKER and rest.split()[0] != _SLEEPING:
                return False
    return True
