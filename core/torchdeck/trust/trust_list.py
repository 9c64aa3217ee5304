"""`trusted.json`: folders and files whose code the user has trusted.

A folder is trusted with all its present and future content; a file by its content. Both need confirmation
again after their owner or mode has changed, and entries that others can write do not apply. An activation
script on a node is trusted by its content; the node itself checks owner and mode.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.contract.atomic import read_json, write_json
from torchdeck.contract.bounded_file import UnreadableFileError
from torchdeck.contract.layout import Home
from torchdeck.contract.lock_file import changing
from torchdeck.contract.refusal import Refusal
from torchdeck.trust.trusted_entry import TRUST_PAGE, Trusted, is_path, is_written
from torchdeck.trust.writers import Writers, other_writers

LOCK_LIMIT = 10.0
"""Seconds to wait for another process that changes the list."""
_VERSION = 2
_DIGEST = re.compile("([0-9a-f]{64})?")


class TrustError(Refusal):
    """Something cannot be trusted, or the list cannot be used; the message has the reason and the fix."""

    page = TRUST_PAGE


class Standing(NamedTuple):
    """Whether something may run."""

    trusted: bool
    never: Writers | None = None
    """Why it cannot be trusted in its state: others can write it."""
    changed: str = ""
    """Why confirmation is needed again; empty if it was never trusted."""


class NodeScript(NamedTuple):
    """Activation script of a node."""

    node: str
    path: str
    """Path on the node, as in the node inventory; may begin with `~/`."""

    @classmethod
    def from_text(cls, text: str) -> NodeScript | None:
        """Return the script written as `NODE:PATH`; None if it is not one."""
        node, _, path = text.partition(":")
        is_script = node and "/" not in node and path.startswith(("/", "~/")) and is_written(text)
        return cls(node, path) if is_script else None

    def __str__(self) -> str:
        return f"{self.node}:{self.path}"


class TrustContent(NamedTuple):
    """Content of the list."""

    entries: dict[str, Trusted]
    """By path."""
    scripts: dict[NodeScript, str]
    """SHA-256 with which each activation script of a node may run; empty if it may not."""

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> TrustContent:
        """Parse the content of the file; what is damaged is left out."""
        entries: list[Trusted | None] = []
        version, written = value.get("v"), value.get("trusted")
        if version == 1 and isinstance(folders := value.get("folders"), list):
            entries = [Trusted(path) for path in folders if is_path(path)]
        elif version == _VERSION and isinstance(written, list):
            entries = [Trusted.from_json(each) for each in written]
        scripts, named = {}, value.get("node_scripts")
        for name, digest in named.items() if isinstance(named, dict) else ():
            script = NodeScript.from_text(name)
            if script is not None and isinstance(digest, str) and _DIGEST.fullmatch(digest):
                scripts[script] = digest
        return cls({entry.path: entry for entry in entries if entry is not None}, scripts)

    def to_json(self) -> dict[str, Any]:
        entries = [self.entries[path].completed().to_json() for path in sorted(self.entries)]
        scripts = {str(script): self.scripts[script] for script in sorted(self.scripts)}
        # an older Torchdeck does not know the last key, and asks again after it has written the list
        return {"v": _VERSION, "trusted": entries} | ({"node_scripts": scripts} if scripts else {})


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
        return list(self._read().entries.values())

    def node_scripts(self) -> dict[NodeScript, str]:
        """Return the SHA-256 with which each activation script of a node may run; empty if it may not.

        A script that is not in it has not been used yet. Raises as `entries`.
        """
        return self._read().scripts

    def add_node_script(self, script: NodeScript, digest: str) -> None:
        """Trust an activation script of a node with this content. Raises TrustError."""
        with self._changing() as trusted:
            trusted.scripts[script] = digest

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
        with self._changing() as trusted:
            trusted.entries[entry.path] = entry
        return entry

    def remove(self, path: Path) -> bool:
        """Remove it from the list; return whether the list had it by this path.

        Args:
            path: a folder or file, or `NODE:PATH` of an activation script.
        """
        names = {str(path.resolve()), str(path.absolute())}
        script = NodeScript.from_text(str(path))
        with self._changing() as trusted:
            found = [name for name in names if trusted.entries.pop(name, None) is not None]
            if script is None or not trusted.scripts.get(script):
                return bool(found)
            trusted.scripts[script] = ""  # without an entry, its next use would be its first
            return True

    def _read(self) -> TrustContent:
        """Return the content of the list; empty if it is missing or damaged. Raises as `entries`."""
        try:
            writers = other_writers(self._file)
        except OSError:
            return TrustContent({}, {})
        if writers is not None:
            raise TrustError(
                f"the list of what is trusted does not count, as {writers.what}", fix=writers.fix
            )
        value = read_json(self._file)
        if not isinstance(value, dict):
            return TrustContent({}, {})
        version = value.get("v")
        if isinstance(version, int) and version > _VERSION:
            raise TrustError(f"{self._file} was written by a newer Torchdeck", fix="update Torchdeck")
        return TrustContent.from_json(value)

    @contextmanager
    def _changing(self) -> Iterator[TrustContent]:
        """Yield the content, and write it when the block ends. Raises TrustError."""
        try:
            with changing(self._file, LOCK_LIMIT):
                before = self._read()
                now = TrustContent(dict(before.entries), dict(before.scripts))
                yield now
                if now != before:
                    write_json(self._file, now.to_json())
        except TimeoutError as error:
            raise TrustError(str(error), fix="try again") from None
        except OSError as error:
            raise TrustError(f"{self._file} cannot be written", error.strerror, "make it writable") from error
