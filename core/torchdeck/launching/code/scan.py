"""Which files below a folder a run would need, without reading them."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from torchdeck.contract.file_names import text_of
from torchdeck.launching.code.ignore import Ignored, is_marked, rules_above
from torchdeck.launching.code.secret_files import NEVER, is_secret_name

MAX_FILES = 20_000
MAX_BYTES = 2**30
MAX_LOOKED = 100_000
"""Names looked at before a folder is given up; a second or so."""


@dataclass(frozen=True)
class FoundFile:
    """A regular file that goes."""

    name: str
    """Below the folder that was scanned, as `text_of` has it."""
    path: str
    stat: os.stat_result
    knowingly: bool = False
    """.torchdeckignore names this very file: it goes though it holds credentials."""


@dataclass
class Found:
    """What goes, and what does not."""

    files: list[FoundFile] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)
    """Name → target, both as texts."""
    leading_out: list[str] = field(default_factory=list)
    """Names of links to what does not go along."""
    secret: list[str] = field(default_factory=list)
    """Names of files and folders that by their names hold credentials."""
    homes: list[str] = field(default_factory=list)
    """Names of folders that are homes of Torchdeck."""
    unreadable: list[str] = field(default_factory=list)
    whole: bool = True
    """False where there is so much that nobody looked any further."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.stat.st_size for file in self.files)


def scan(
    base: Path,
    without: Iterable[Path] = (),
    *,
    always: Path | None = None,
    max_looked: int = MAX_LOOKED,
) -> Found:
    """Look through `base`.

    Args:
        base: the folder; absolute.
        without: folders that stay behind.
        always: a file that rules do not leave behind: what is to be run.
        max_looked: names that are looked at.

    Raises:
        RulesError: a file of rules cannot be used.
    """
    walk = _Walk(base, frozenset(map(str, without)), None if always is None else str(always), max_looked)
    walk.look(str(base), rules_above(base))
    walk.found.files.sort(key=lambda file: file.name)
    return walk.found


def _is_home(names: Collection[str]) -> bool:
    """Whether a folder that holds `names` is a home of Torchdeck, here or on a node."""
    return "runs" in names and ("shipped" in names or "leases" in names)


class _Walk:
    def __init__(self, base: Path, without: frozenset[str], always: str | None, left: int) -> None:
        self.found = Found()
        self._base = str(base).rstrip("/") + "/"
        self._without = without
        self._always = always
        self._left = left

    def look(self, folder: str, rules: Ignored) -> None:
        waiting = [(folder, rules)]
        while waiting:
            here, rules = waiting.pop()
            entries = self._entries(here)
            names = [entry.name for entry in entries]
            if here != folder and is_marked(names):
                continue
            if here != folder and _is_home(names) and not rules.knowingly(here):
                self.found.homes.append(self._name(here))
                continue
            rules = rules.within(here, names)
            waiting += [(path, rules) for path in self._sort(here, entries, rules)]

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        if self._left <= 0:
            self.found.whole = False
            return []
        found = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    found.append(entry)
                    self._left -= 1
                    if self._left <= 0:
                        self.found.whole = False
                        break
        except OSError:
            self.found.unreadable.append(self._name(folder))
        return found

    def _sort(self, folder: str, entries: list[os.DirEntry[str]], rules: Ignored) -> Iterator[str]:
        """Note what goes; the folders to look at."""
        for entry in entries:
            secret = is_secret_name(entry.name, os.path.basename(folder))  # noqa: PTH119 - a text among thousands
            knowingly = (secret or bool(rules.own)) and entry.name != NEVER and rules.knowingly(entry.path)
            if secret and not knowingly:
                if entry.name != NEVER:
                    self.found.secret.append(self._name(entry.path))
            elif entry.is_dir(follow_symlinks=False):
                if entry.path not in self._without and not rules.folder(entry.path):
                    yield entry.path
            elif entry.path == self._always or not rules.file(entry.path):
                self._note(entry, knowingly=knowingly)

    def _note(self, entry: os.DirEntry[str], *, knowingly: bool) -> None:
        try:
            if entry.is_symlink():
                self._note_link(entry)
                return
            found = entry.stat(follow_symlinks=False)
        except OSError:
            return  # gone meanwhile
        if stat.S_ISREG(found.st_mode):
            self.found.files.append(FoundFile(self._name(entry.path), entry.path, found, knowingly))

    def _note_link(self, entry: os.DirEntry[str]) -> None:
        """Links inside the tree stay what they are; others lead, from anywhere, to where they led."""
        target = os.readlink(entry.path)  # noqa: PTH115
        folder = os.path.dirname(entry.path)  # noqa: PTH120 - a text among thousands
        absolute = os.path.normpath(os.path.join(folder, target))  # noqa: PTH118
        name = self._name(entry.path)
        if (absolute + "/").startswith(self._base):
            target = os.path.relpath(absolute, folder)
        else:
            target = absolute
            self.found.leading_out.append(name)
        self.found.links[name] = text_of(target)

    def _name(self, path: str) -> str:
        return text_of(path[len(self._base) :])
