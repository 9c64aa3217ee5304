"""Text files in an order that is the same everywhere. Does not need torch."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

STDLIB = "stdlib"
"""Name of the source that is the source code of the running Python's standard library, which every machine
has.
"""

_SKIPPED_FOLDERS = frozenset({"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"})


def ordered_files(root: Path, suffix: str | None) -> list[Path]:
    """Return the files below `root`, or `root` itself, by the SHA-256 of their relative paths.

    That order mixes the folders and is the same on every machine. Hidden files and folders of installed
    packages or tests are left out, and if a suffix is given all files without it.
    """
    if root.is_file():
        return [root]

    def key(path: Path) -> tuple[bytes, str]:
        name = path.relative_to(root).as_posix()
        return hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest(), name

    return sorted(_files(root, suffix), key=key)


def _files(root: Path, suffix: str | None) -> Iterator[Path]:
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if name not in _SKIPPED_FOLDERS and not name.startswith(".")]
        for name in files:
            path = Path(folder, name)
            if not name.startswith(".") and (suffix is None or path.suffix == suffix) and path.is_file():
                yield path
