"""Finds the files of a run directory that are mirrored, as they appear."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from torchdeck.agent.link.mirrored_file import ChangeWatch
from torchdeck.agent.link.names import Mirrored, mirrored
from torchdeck.contract.layout import RunLayout


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


RECENT = 2
"""Attempts that are looked at every time; what came before them hardly changes."""
FILES_LIMIT = 200_000
"""Files that are mirrored at most. A rank can make any number of them."""


class Finder:
    """Gives each mirrored file once."""

    def __init__(self, root: Path, node: str) -> None:
        self._root = root
        self._layout = RunLayout(root)
        self._node = node
        self._known: set[str] = set()
        self._listings: dict[str, Listing] = {}
        self._attempts: list[int] = []
        """Numbers, the newest first."""
        self.refused: list[str] = []
        """Links where files should be, which are not followed; each once."""

    def look(self, *, everywhere: bool) -> list[tuple[str, Mirrored]]:
        """The files that were not given yet.

        Args:
            everywhere: in all attempts, not only in the last.
        """
        found = []
        for folder in self._folders(everywhere=everywhere):
            for entry in self._news(folder, thorough=everywhere):
                path = f"{folder}/{entry.name}"[len(str(self._root)) + 1 :]
                if path in self._known or len(self._known) >= FILES_LIMIT:
                    continue
                kind = mirrored(path, self._node)
                if kind is None:
                    continue
                self._known.add(path)
                if entry.is_file(follow_symlinks=False):
                    found.append((path, kind))
                else:
                    self.refused.append(path)
        return found

    def forget(self, path: str) -> None:
        """It is gone; should there be one again, it is a new one."""
        self._known.discard(path)

    def newest_attempts(self, count: int) -> list[int]:
        """Numbers of the last attempts at the last look, the newest first."""
        return self._attempts[:count]

    def _folders(self, *, everywhere: bool) -> Iterator[str]:
        node = self._layout.node(self._node)
        yield str(node.root)
        yield str(node.system)
        numbers = (entry.name for entry in self._entries(str(self._layout.attempts), thorough=everywhere))
        self._attempts = sorted((int(name) for name in numbers if name.isdecimal()), reverse=True)
        for number in self._attempts if everywhere else self._attempts[:RECENT]:
            attempt = self._layout.attempt(number)
            yield str(attempt.root)
            yield str(attempt.node(self._node).root)
            for examination in self._entries(str(attempt.examinations), thorough=everywhere):
                if examination.is_dir(follow_symlinks=False):
                    yield examination.path
            for rank in self._entries(str(attempt.ranks), thorough=everywhere):
                if rank.is_dir(follow_symlinks=False):
                    yield rank.path
                    yield f"{rank.path}/metrics"

    def _entries(self, folder: str, *, thorough: bool) -> list[os.DirEntry[str]]:
        """All that is in `folder`."""
        listing = self._listing(folder)
        listing.look(thorough=thorough)
        return listing.entries

    def _news(self, folder: str, *, thorough: bool) -> list[os.DirEntry[str]]:
        """The same; empty if unchanged."""
        listing = self._listing(folder)
        return listing.entries if listing.look(thorough=thorough) else []

    def _listing(self, folder: str) -> Listing:
        listing = self._listings.get(folder)
        if listing is None:
            listing = self._listings[folder] = Listing(folder)
        return listing
