"""Cached hashes of files that are requested at every edit of a run file, and seldom change."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from pathlib import Path

from torchdeck.launching.code.digests import is_fresh, stamp_of
from torchdeck.launching.facts.code_tree import MAX_FILES, content_digest

KEPT = 4 * MAX_FILES


class RememberedDigests:
    """A `Digest` that reads a file again only if its size or one of its times has changed, or is very recent.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[Path, tuple[tuple[int, ...], str]] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, path: Path, stat: os.stat_result) -> str:
        """Return the SHA-256 of the file's content; raises OSError."""
        # ctime, which no program can set, reveals a change that an editor hides
        stamp = stamp_of(stat)
        with self._lock:
            known = self._known.get(path)
            if known is not None and known[0] == stamp:
                self._known.move_to_end(path)
                return known[1]
        fresh = is_fresh(stat)
        made = content_digest(path, stat)
        if fresh:
            return made
        with self._lock:
            self._known[path] = stamp, made
            self._known.move_to_end(path)
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return made
