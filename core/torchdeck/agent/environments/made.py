"""Complete environments of a home, and removal of unused ones."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.atomic import read_json, write_json
from torchdeck.contract.layout import FORMAT_VERSION, Home
from torchdeck.contract.lock_file import try_lock

UNUSED = 30 * 86_400.0
"""Seconds after its last use in which an environment is kept."""
MARKER = "torchdeck.json"


class Made(NamedTuple):
    """One complete environment."""

    key: str
    source: str
    """Name of the file that lists its packages."""
    torch: str | None
    numpy: str | None


def lock_path(home: Home, key: str) -> Path:
    """Return its lock: shared by those that use it, exclusive for the one that makes or removes it."""
    return home.environments / f"{key}.lock"


def marker_path(home: Home, key: str) -> Path:
    """Return the file that is written once it is complete; its time is that of its last use."""
    return home.environments / key / MARKER


def write_marker(home: Home, key: str, source: str) -> None:
    """Declare it complete."""
    stems = (name.removesuffix(".dist-info") for name in packages_of(home.environments / key))
    found = {stem.partition("-")[0].lower(): stem.partition("-")[2] for stem in stems}
    value = {"v": FORMAT_VERSION, "source": source, "torch": found.get("torch"), "numpy": found.get("numpy")}
    write_json(marker_path(home, key), value)


def read_made(home: Home, key: str) -> Made | None:
    """Return the environment `key`; None if it is not there or not complete."""
    value = read_json(marker_path(home, key))
    if not isinstance(value, dict) or not (home.environments / key / "bin" / "python").exists():
        return None
    torch, numpy = (value.get(name) for name in ("torch", "numpy"))
    return Made(
        key,
        str(value.get("source", "")),
        torch if isinstance(torch, str) else None,
        numpy if isinstance(numpy, str) else None,
    )


def all_made(home: Home) -> Iterator[Made]:
    """Yield the complete environments."""
    for key in _keys(home):
        found = read_made(home, key)
        if found is not None:
            yield found


def packages_of(folder: Path) -> list[str]:
    """Return the names of the installed packages' metadata folders."""
    found: list[str] = []
    for site in _sites(folder):
        with contextlib.suppress(OSError):
            found += [path.name for path in site.iterdir() if path.name.endswith(".dist-info")]
    return found


def remove_unused(home: Home, now: float | None = None) -> list[str]:
    """Remove environments that no run has used for `UNUSED` seconds, and incomplete ones; return their keys.

    What cannot be removed stays for the next time.
    """
    limit = (time.time() if now is None else now) - UNUSED
    removed = []
    for key in _keys(home):
        with contextlib.suppress(OSError):
            folder, marker = home.environments / key, marker_path(home, key)
            if (marker if marker.exists() else folder).stat().st_mtime > limit:
                continue
            lock = try_lock(lock_path(home, key))
            if lock is None:  # in use
                continue
            try:
                marker.unlink(missing_ok=True)  # first: from now on it is not complete
                shutil.rmtree(folder)
                removed.append(key)
            finally:
                os.close(lock)
    return removed


def _keys(home: Home) -> list[str]:
    try:
        names = sorted(path.name for path in home.environments.iterdir())
    except OSError:
        return []
    return [name for name in names if name.startswith("uv-") and not name.endswith(".lock")]


def _sites(folder: Path) -> list[Path]:
    return sorted(folder.glob("lib/python3*/site-packages"))
