"""Failure for want of room, with the reason if only files are too many."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from pathlib import Path

from torchdeck.agent.gang.events import Failure
from torchdeck.contract.free_space import existing_folder, inodes_left

INODES_GONE = 16
"""As few as none: what failed has removed some files since."""
NAMED_LIMIT = 4
"""Files in a failure's words whose disks are looked at."""
_FULL = os.strerror(errno.ENOSPC)
_FULL_AT = re.compile(re.escape(_FULL) + r": b?['\"](/[^'\"\n]{1,4000})['\"]")


def with_inodes(failure: Failure, run_dir: Path) -> Failure:
    """A failure for want of room, with the reason if there is room for bytes, but not for files."""
    words = f"{failure.message}\n{failure.traceback or ''}"
    if _FULL not in words:
        return failure
    named = [Path(found[1]).parent for found in _FULL_AT.finditer(words)]
    for folder in (*named[:NAMED_LIMIT], run_dir):
        with contextlib.suppress(OSError):
            left = inodes_left(existing_folder(folder))
            if left is not None and left < INODES_GONE:
                return failure._replace(message=f"{failure.message} (no inodes left on the disk of {folder})")
    return failure
