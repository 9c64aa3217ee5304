"""Protection of passwords in memory from core dumps and from the user's other processes."""

from __future__ import annotations

import ctypes

_PR_SET_DUMPABLE = 4


def keep_memory_private() -> None:
    """Make this process not dumpable, so that no core dump, debugger or /proc/PID/mem shows its memory.

    Its `environ`, `fd` and `mem` in /proc belong to root from then on; `stat` and `cmdline` stay readable.
    Programs that it executes start out dumpable, so agents and ranks are not affected; forks are.

    Raises:
        OSError: the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the kernel does not keep this process from being dumped")
