"""`trusted.json`: folders and files whose code the user has trusted.

A folder is trusted with all its present and future content; a file by its content. Both need confirmation
again after their owner or mode has changed, and entries that others can write do not apply.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.atomic import read_json, write_json
from torchdeck.contract.bounded_file import UnreadableFileError
from torchdeck.contract.layout import Home
from torchdeck.contract.lock_file import changing
from torchdeck.contract.refusal import Refusal
from torchdeck.trust.entry import Trusted, is_path
from torchdeck.trust.writers import Writers, other_writers

LOCK_LIMIT = 10.0
"""Seconds to wait for another process that changes the list."""
_VERSION = 2


class TrustError(Refusal):
    """Something cannot be trusted, or the list cannot be used; the message has the reason and the fix."""

    page = "recipes#trust"


class Standing(NamedTuple):
    """Whether something may run."""

    trusted: bool
    never: Writers | None = None
    """Why it cannot be trusted in its state: others can write it."""
    changed: str = ""
    """Why confirmation is needed again; empty if it was never trusted."""


class TrustList:
    """Trust list in a Torchdeck home. Read on each call; any process may change it meanwhile.

    Args:
        home: TORCHDECK_HOME.
    """

    def __init__(self, home: Path) -> None:
        self._file = Home(home).trusted

    def entries(self) -> list[Trusted]:
        """Return the entries in order; none if the list is missing or damaged, which is the safe choice.

        Raises:
            TrustError: the list was written by a newer Torchdeck, or others can write it.
        """
        try:
            writers = other_writers(self._file)
        except OSError:
            return []
        if writers is not None:
            raise TrustError(
                f"the list of what is trusted does not count, as {writers.what}", fix=writers.fix
            )
        value = read_json(self._file)
        if not isinstance(value, dict):
            return []
        version = value.get("v")
        if isinstance(version, int) and version > _VERSION:
            raise TrustError(f"{self._file} was written by a newer Torchdeck", fix="update Torchdeck")
        if version == 1:
            folders = value.get("folders")
            return [Trusted(path) for path in folders if is_path(path)] if isinstance(folders, list) else []
        written = value.get("trusted")
        if version != _VERSION or not isinstance(written, list):
            return []
        return [entry for entry in map(Trusted.from_json, written) if entry is not None]

    def standing(self, path: Path, file: Path | None = None) -> Standing:
        """Return whether `path` or a folder around it is trusted; links are followed first.

        Args:
            path: a folder or file.
            file: file in it to be executed.

        Raises:
            TrustError: see `entries`.
        """
        try:
            real = path.resolve(strict=True)
            never = other_writers(path)
        except OSError:
            return Standing(trusted=False)
        if never is not None:
            return Standing(trusted=False, never=never)
        around = {str(place) for place in (real, *real.parents)}
        real_file = None if file is None else file.resolve()
        changes = [entry.change(real_file) for entry in self.entries() if entry.path in around]
        if "" in changes:
            return Standing(trusted=True)
        return Standing(trusted=False, changed=changes[0] if changes else "")

    def add(self, path: Path) -> Trusted:
        """Trust a folder, or a file with its current content; an existing entry is updated.

        Raises:
            TrustError: it does not exist, others can write it, or the list cannot be written.
        """
        try:
            never = other_writers(path)
            entry = Trusted.of(str(path.resolve(strict=True)))
        except UnreadableFileError as error:
            raise TrustError(f"{path} cannot be trusted by its content: it {error.why}") from error
        except OSError as error:
            raise TrustError(f"{path} cannot be trusted", error.strerror, "name what is there") from error
        if never is not None:
            raise TrustError(f"{path} cannot be trusted, as {never.what}", fix=never.fix)
        if not is_path(entry.path):
            raise TrustError(f"{entry.path!r} cannot be trusted, as its name is not UTF-8", fix="rename it")
        with self._changing() as entries:
            entries[entry.path] = entry
        return entry

    def remove(self, path: Path) -> bool:
        """Remove it from the list; return whether the list had it by this path."""
        names = {str(path.resolve()), str(path.absolute())}
        with self._changing() as entries:
            found = [name for name in names if entries.pop(name, None) is not None]
        return bool(found)

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Trusted]]:
        """Yield the entries by path, and write them when the block ends. Raises TrustError."""
        try:
            with changing(self._file, LOCK_LIMIT):
                before = {entry.path: entry for entry in self.entries()}
                entries = dict(before)
                yield entries
                if entries != before:
                    written = [entries[path].completed().to_json() for path in sorted(entries)]
                    write_json(self._file, {"v": _VERSION, "trusted": written})
        except TimeoutError as error:
            raise TrustError(str(error), fix="try again") from None
        except OSError as error:
            raise TrustError(f"{self._file} cannot be written", error.strerror, "make it writable") from error


class Held(NamedTuple):
    """Code that may not run (yet)."""

    folder: Path
    """Folder or file to trust, without symbolic links."""
    what: str
    """Sentence without its period."""
    fix: str
    can_be_trusted: bool = True
    """False if others can write it: it has to be changed first."""

    def __str__(self) -> str:
        return f"{self.what}: {self.fix}"
