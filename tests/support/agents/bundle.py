"""The runtime bundle, compiled once by each worker; homes of tests get links to it."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from torchdeck.launching.runtime_bundle import ship


@cache
def _made() -> Path:
    folder = tempfile.mkdtemp(prefix="torchdeck-bundle-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return ship(Path(folder))


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # on another disk
        shutil.copy2(source, target)


def lay_bundle(home: Path) -> Path:
    """Links to it in this TORCHDECK_HOME, where a start finds it: making it takes most of a second.

    A test that damages a file there replaces it, and does not write into it.
    """
    made = _made()
    target = home / "shipped" / made.name
    for folder in (home, target.parent):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not target.exists():
        shutil.copytree(made, target, copy_function=_link)
    return target
