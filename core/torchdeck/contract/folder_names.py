"""Names in folders that are polled often and change rarely."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

YOUNG = 2.0
"""Seconds after which a new name changes a folder's time again, however coarse its file system."""
AGAIN = 10.0
"""Seconds after which a folder is listed anyway: not every file system reports that a folder has changed."""


class _Listed(NamedTuple):
    names: tuple[str, ...]
    changed: int
    """Nanoseconds, as the file system reports; compared with nothing but itself."""
    since: float
    """When this modification time was first seen. Monotonic, as is `at`."""
    at: float


class FolderNames:
    """Folder listing, repeated only if the modification time differs: checking costs a tenth. For one thread.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._listed: dict[Path, _Listed] = {}

    def __call__(self, folder: Path) -> tuple[str, ...]:
        """Return the names in `folder`, sorted; none if there is no such folder.

        Raises:
            OSError: it cannot be listed.
        """
        try:
            now, changed = self._clock(), folder.stat().st_mtime_ns
            known = self._listed.get(folder)
            if known is None or known.changed != changed:
                since = now
            elif known.at - known.since > YOUNG and now - known.at < AGAIN:
                return known.names
            else:
                since = known.since
            # strings: this is called repeatedly for many folders
            names = tuple(sorted(os.listdir(folder)))  # noqa: PTH208
        except (FileNotFoundError, NotADirectoryError):
            self._listed.pop(folder, None)
            return ()
        self._listed[folder] = _Listed(names, changed, since, now)
        return names
