"""How far the clock that dates files is from this node's: on a file server it is another one."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

CLOCK_STEP = 0.02
"""Seconds by which a file's time may lie before its writing: the kernel's clock for files ticks."""
FILE_ERROR = CLOCK_STEP / 2
"""Seconds by which the middle of such a tick may be wrong."""


def files_ahead(folder: Path) -> float:
    """Seconds that a file made in `folder` now is dated ahead of `time.time()`.

    0.0 where that cannot be told from no difference at all, or no file can be made.
    """
    probe = folder / f".clock.{os.getpid()}"
    before = time.time()
    try:
        descriptor = os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError:
        return 0.0
    try:
        dated = os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            probe.unlink()
    took = time.time() - before
    ahead = dated - (before + took / 2.0)
    return ahead if abs(ahead) > CLOCK_STEP + took else 0.0
