"""File hashes, cached in TORCHDECK_HOME so that a tree of thousands is not read at every launch."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.atomic import read_json, write_bytes
from torchdeck.contract.layout import Home
from torchdeck.launching.code.secret_contents import SecretSearch, rules_version

VERSION = 2
KEPT = 64
"""Number of trees whose hashes are cached."""
WORTH_KEEPING = 0.03
"""Seconds of hashing below which nothing is cached: hashing again is as fast."""
_CHUNK = 1 << 20
_FINE, _COARSE = 0.1, 2.5
"""Seconds within which a file may change twice and keep its timestamps, for a fine and a coarse file system
clock.
"""

Stamp = tuple[int, int, int, int]


class Digest(NamedTuple):
    """Content of a file."""

    hash: str
    """SHA-256 of the content read."""
    secret: str
    """Kind of credential it holds, as returned by `secret_in`; empty if none."""


class Digests:
    """Hashes of the files of one tree.

    A file is read again if its size, a timestamp or its inode has changed since it was read. The ctime cannot
    be set, so an editor that preserves a file's mtime does not hide a change.
    """

    def __init__(self, home: Path, base: Path) -> None:
        name = hashlib.sha256(os.fsencode(base)).hexdigest()[:24]
        self._path = Home(home).code / "hashes" / f"{name}.json"
        self._known = _read(self._path)
        self._seconds = 0.0
        self._new: dict[str, tuple[Stamp, Digest]] = {}

    def known(self, name: str, stat: os.stat_result) -> Digest | None:
        """Return the digest of the file `name`, if it is unchanged since it was read."""
        stamp = stamp_of(stat)
        for kept in (self._new.get(name), self._known.get(name)):
            if kept is not None and kept[0] == stamp:
                self._new[name] = kept
                return kept[1]
        return None

    def read(self, name: str, path: str) -> Digest | None:
        """Read the file; return None if that is not possible."""
        begun = time.monotonic()
        try:
            with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - thousands of texts
                before = os.fstat(file.fileno())
                digest, search = hashlib.sha256(), SecretSearch()
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
                    search.feed(chunk)
                after = os.fstat(file.fileno())
        except OSError:
            return None
        found = Digest(digest.hexdigest(), search.end())
        if stamp_of(before) == stamp_of(after) and not is_fresh(after):
            self._new[name] = stamp_of(after), found
        self._seconds += time.monotonic() - begun
        return found

    def save(self) -> None:
        """Write the cache if it saves time; a home that cannot be written is ignored."""
        if self._seconds < WORTH_KEEPING:
            return
        value = {
            "version": VERSION,
            "rules": rules_version(),
            "files": {name: [*kept[0], *kept[1]] for name, kept in self._new.items()},
        }
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            text = json.dumps(value, separators=(",", ":"))
            write_bytes(self._path, text.encode(), durable=False, private=True)
            _forget_oldest(self._path.parent)


def stamp_of(stat: os.stat_result) -> Stamp:
    """Fingerprint of a file: it changes if the file does."""
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


def is_fresh(stat: os.stat_result) -> bool:
    """Return whether the file changed so recently that the next change could leave its timestamps the
    same.
    """
    fine = stat.st_ctime_ns % 1_000_000_000 != 0
    return time.time() - stat.st_ctime < (_FINE if fine else _COARSE)


def _read(path: Path) -> dict[str, tuple[Stamp, Digest]]:
    value = read_json(path)
    if not isinstance(value, Mapping) or value.get("version") != VERSION:
        return {}
    if value.get("rules") != rules_version():  # other rules may give other results for the same files
        return {}
    try:
        return {
            name: ((a, b, c, d), Digest(h, secret))
            for name, (a, b, c, d, h, secret) in value["files"].items()
        }
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}


def _forget_oldest(folder: Path) -> None:
    found = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found[KEPT:]:
        path.unlink(missing_ok=True)
