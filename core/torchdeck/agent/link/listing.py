"""What is in a folder, asked again and again: read only when the folder says that it may be another."""

from __future__ import annotations

import os

from torchdeck.agent.link.changes import ChangeWatch


class Listing:
    """One folder, whose names are read when one may have come or gone.

    Attributes:
        entries: what was in it when it was read last; nothing in one that is not there, or is a link.
    """

    def __init__(self, path: str) -> None:
        self.entries: list[os.DirEntry[str]] = []
        self._path = path
        self._watch = ChangeWatch(path)

    def look(self, *, thorough: bool = False) -> bool:
        """Whether it was read.

        Args:
            thorough: read it whatever it says; some file systems tell the time in whole seconds.
        """
        try:
            if not self._watch.look() and not thorough:
                return False
            self.entries = [] if self._watch.is_link else _entries(self._path)
        except OSError:
            self.entries = []
        return True


def _entries(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return list(entries)
