"""Hashes of files, kept in TORCHDECK_HOME so that a tree of thousands is not read at every launch."""

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
"""Trees whose hashes are kept."""
WORTH_KEEPING = 0.03
"""Seconds of hashing below which nothing is written down: it is as quick to hash again."""
_CHUNK = 1 << 20
_FINE, _COARSE = 0.1, 2.5
"""Seconds in which a file may change twice and keep its times, by how fine the file system's are."""

Stamp = tuple[int, int, int, int]


class Digest(NamedTuple):
    """What a file holds."""

    hash: str
    """SHA-256 of what was read."""
    secret: str
    """Which credential it holds, as `secret_in` says it; empty if none."""


class Digests:
    """Hashes of the files of one tree.

    A file is read again where its size, a time or its inode is another than when it was read. Nobody can set
    the time of the last change of any kind, so an editor that keeps the time of a file hides nothing.
    """

    def __init__(self, home: Path, base: Path) -> None:
        name = hashlib.sha256(os.fsencode(base)).hexdigest()[:24]
        self._path = Home(home).code / "hashes" / f"{name}.json"
        self._known = _read(self._path)
        self._seconds = 0.0
        self._new: dict[str, tuple[Stamp, Digest]] = {}

    def known(self, name: str, stat: os.stat_result) -> Digest | None:
        """Of the file `name`, if it is as it was when it was read."""
        stamp = stamp_of(stat)
        for kept in (self._new.get(name), self._known.get(name)):
            if kept is not None and kept[0] == stamp:
                self._new[name] = kept
                return kept[1]
        return None

    def read(self, name: str, path: str) -> Digest | None:
        """Read the file; None where that is not possible."""
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
        """Write down what was found, where that spares time; a home that cannot be written spares none."""
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
    """What changes when a file does."""
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


def is_fresh(stat: os.stat_result) -> bool:
    """Whether the file was changed so lately that the next change could leave its times as they are."""
    fine = stat.st_ctime_ns % 1_000_000_000 != 0
    return time.time() - stat.st_ctime < (_FINE if fine else _COARSE)


def _read(path: Path) -> dict[str, tuple[Stamp, Digest]]:
    value = read_json(path)
    if not isinstance(value, Mapping) or value.get("version") != VERSION:
        return {}
    if value.get("rules") != rules_version():  # they would find something else in the same files
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
