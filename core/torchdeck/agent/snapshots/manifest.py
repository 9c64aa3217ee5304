"""Manifest of a copy of the user's code: names, hashes, links. It is stored in code.json and sent."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from torchdeck.contract.bounded_json import JsonError, parse_json
from torchdeck.contract.file_names import checked_name, name_of

MANIFEST_LIMIT = 128 * 1024 * 1024
"""Bytes of a list; a file takes about a hundred."""
MANIFEST_VERSION = 1
LINK = "-> "
"""Begins what a plan says of a symbolic link, before its target."""
EXECUTABLE = " x"
"""Ends what a plan says of a file that may be executed, after its hash."""
_HASH = re.compile(r"[0-9a-f]{64}")


class ManifestError(ValueError):
    """A list of files is damaged, from a newer Torchdeck, or names what must not be written."""


class Entry(NamedTuple):
    """One file or link."""

    name: str
    """Relative path, as `names.text_of` has it."""
    content: str
    """As plans show it: a SHA-256, with ` x` behind it for a file that may be executed; or `-> target`."""
    size: int
    """Bytes of a file; 0 of a link."""

    @property
    def target(self) -> str | None:
        """Target of a link, as a name; None for a file."""
        return name_of(self.content[len(LINK) :]) if self.content.startswith(LINK) else None

    @property
    def blob(self) -> Blob:
        """Content of a file."""
        return Blob(self.content[:64], self.size, self.content.endswith(EXECUTABLE))


class Blob(NamedTuple):
    """The content of files; files of the same content that may not be executed alike are two."""

    hash: str
    size: int
    executable: bool

    @property
    def key(self) -> str:
        """Its name in a store."""
        return f"{self.hash}.x" if self.executable else self.hash


class Manifest(NamedTuple):
    """All entries of a copy, by name in order."""

    entries: tuple[Entry, ...]

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Manifest:
        return cls(tuple(sorted(entries)))

    @property
    def tree_hash(self) -> str:
        """SHA-256 over all of it: copies with the same are the same."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.entries)

    def blobs(self) -> dict[str, Blob]:
        """Every content once, by its key."""
        return {entry.blob.key: entry.blob for entry in self.entries if entry.target is None}

    def to_bytes(self) -> bytes:
        """JSON, in one line."""
        value = {"version": MANIFEST_VERSION, "entries": self.entries}
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8")

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """Parse the result of `to_bytes`, checked: it may come from elsewhere.

        Raises:
            ManifestError: it is not one, or writing it would lead out of its folder.
        """
        try:
            value = parse_json(data, limit=MANIFEST_LIMIT)
        except JsonError as error:
            raise ManifestError(f"the list of files is no JSON: {error}") from None
        version = value.get("version") if isinstance(value, Mapping) else None
        if not isinstance(version, int) or version > MANIFEST_VERSION:
            raise ManifestError(
                f"the list of files has version {version!r}; this Torchdeck reads up to {MANIFEST_VERSION}"
            )
        return cls.of(_checked(value.get("entries")))


def _checked(value: Any) -> Iterator[Entry]:
    if not isinstance(value, list):
        raise ManifestError("the list of files has no entries")
    files: set[str] = set()
    folders: set[str] = set()
    for item in value:
        entry = _entry(item)
        files.add(entry.name)
        above = entry.name
        while "/" in above:
            above = above.rpartition("/")[0]
            if above in folders:
                break
            folders.add(above)
        yield entry
    if len(files) < len(value):
        raise ManifestError("the list of files names one twice")
    if files & folders:
        raise ManifestError(f"the list of files has {min(files & folders)!r} as a file and as a folder")


def _entry(item: Any) -> Entry:
    if not isinstance(item, list) or [type(part) for part in item] != [str, str, int]:
        raise ManifestError(f"the list of files holds {item!r}, which is no entry")
    entry = Entry(*item)
    try:
        checked_name(entry.name)
        target = entry.target
    except ValueError as error:
        raise ManifestError(str(error)) from None
    rest = entry.content[64:]
    is_file = _HASH.fullmatch(entry.content[:64]) is not None and rest in ("", EXECUTABLE) and entry.size >= 0
    if not (is_file if target is None else target and "\0" not in target and entry.size == 0):
        raise ManifestError(f"the list of files says {entry.content!r} of {entry.name!r}")
    return entry
