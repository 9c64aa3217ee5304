"""What another process has open."""

from __future__ import annotations

import contextlib
from pathlib import Path


def open_files(pid: int) -> set[Path]:
    """What its descriptors lead to; one that it closes meanwhile is not among them."""
    found = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.add(link.readlink())
    return found
