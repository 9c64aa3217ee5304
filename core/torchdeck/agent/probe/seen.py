"""What is at some paths of this node: whether another machine's files are seen here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HASHED_LIMIT = 16 * 2**20
"""Bytes of a file whose content is told; scripts are smaller."""


def seen(question: Mapping[str, Any]) -> dict[str, Any]:
    """For each of `paths`: `kind` (file, folder or empty), `size` and, of smaller files, `sha256`."""
    return {"seen": [_seen(Path(str(path)).expanduser()) for path in question["paths"]]}


def _seen(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"path": str(path), "kind": "", "size": 0, "sha256": "", "readable": False}
    try:
        # a network file system remembers for a while that a file was not there, until its folder is listed
        os.listdir(path.parent)  # noqa: PTH208 - for its effect alone
        found["size"] = path.stat().st_size
    except OSError:
        return found
    found["kind"] = "folder" if path.is_dir() else "file"
    found["readable"] = os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0))
    if path.is_file() and found["readable"] and found["size"] <= HASHED_LIMIT:
        import hashlib  # takes a while to load

        found["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found
