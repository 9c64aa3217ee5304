"""Folders next to the runtime bundles whose makers were killed before they finished."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

BEGINNINGS = (".making-", ".damaged-")
"""As `loader.write` names what it makes, and what gives way to that."""
ABANDONED = 24 * 3600.0
"""Seconds after which a maker, who needs a few, is gone. No lock says it: makers may be on several machines
that share a home, on a file system without locks."""


def remove_abandoned(shipped: Path, now: float) -> None:
    """Remove what was left behind in `shipped`; what cannot be removed stays for the next one.

    Args:
        shipped: the folder of shipped folders; it need not be there.
        now: unix seconds.
    """
    with contextlib.suppress(OSError):  # cleanup blocks nothing
        for folder in list(shipped.iterdir()):
            if folder.name.startswith(BEGINNINGS) and now - folder.lstat().st_mtime > ABANDONED:
                shutil.rmtree(folder, ignore_errors=True)
