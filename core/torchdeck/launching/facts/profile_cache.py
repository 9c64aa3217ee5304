"""Cache of traced profiles, keyed by everything they depend on."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from torchdeck.config.schema import RunConfig
from torchdeck.contract.atomic import read_json, write_bytes
from torchdeck.contract.inventory import InterpreterFacts
from torchdeck.contract.layout import Home
from torchdeck.contract.package import FOLDER
from torchdeck.contract.plan.model_profile import ModelProfile, ProfileFormatError
from torchdeck.launching.facts.code_tree import read_code_tree

KEPT = 64
"""Profiles to keep; least recently used ones are removed first."""
_WRITING = 3600.0
"""Seconds after which a temporary file has no writer any more."""
TRACER = ("tracing", "distributed", "recipes", "contract/plan/model_profile.py")
"""Torchdeck's own code that a profile depends on, relative to the package."""
_MAX_ENTRIES = 2_000
"""Names in a data folder whose times and sizes are checked."""


class ProfileCache:
    """Profiles under `home`/profiles, one file each; a damaged one counts as missing.

    Files are replaced atomically, so processes that use the folder at the same time need no lock.
    """

    def __init__(self, home: Path) -> None:
        self._folder = Home(home).profiles

    def read(self, key: str) -> ModelProfile | None:
        """Return the profile of `key`, if it exists and is complete."""
        path = self._folder / f"{key}.json"
        try:
            value = read_json(path)
            if not isinstance(value, Mapping) or value.get("key") != key:
                return None
            profile = ModelProfile.from_json(value.get("profile"))
        except (OSError, ProfileFormatError):
            return None
        with suppress(OSError):  # a read-only folder can still be read
            os.utime(path)
        return profile

    def write(self, key: str, profile: Mapping[str, Any]) -> None:
        """Store `profile`; if the folder cannot be written, it is just traced again."""
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            text = json.dumps({"key": key, "profile": profile}, separators=(",", ":"))
            write_bytes(self._folder / f"{key}.json", text.encode(), durable=False, private=True)
            self._prune()

    def _prune(self) -> None:
        """Remove excess profiles, and files left by killed writers."""
        ages: list[tuple[float, Path]] = []
        for path in self._folder.iterdir():
            with suppress(FileNotFoundError):  # another process prunes too
                ages.append((time.time() - path.stat().st_mtime, path))
        profiles = sorted(item for item in ages if item[1].suffix == ".json")
        left = [item for item in ages if item[1].suffix == ".tmp" and item[0] > _WRITING]
        for _, path in profiles[KEPT:] + left:
            path.unlink(missing_ok=True)


def profile_key(config: RunConfig, request: Mapping[str, Any], facts: InterpreterFacts) -> str:
    """Return a hash of everything the answer to `request` depends on.

    That is the request, the code of recipe and tracer, Python, torch and other installed packages, and sizes
    and times of the files that [data] and [model] name.
    """
    working_dir = Path(config.run.working_dir or Path.cwd())
    folders = {working_dir, Path(config.run.recipe).parent if config.run.recipe else working_dir}
    facts_used = {
        "request": dict(request),
        "env": config.run.env,
        "working_dir": str(working_dir),
        # a recipe also imports from its own folder, wherever ranks start
        "code": [dict(read_code_tree(config, folder)[0].files) for folder in sorted(folders)],
        "installed": [os.environ.get("PYTHONPATH"), *_installed(Path(facts.executable))],
        "tracer": _tracer_hash(),
        "interpreter": [facts.executable, facts.python, facts.torch, facts.numpy],
        "files": [list(_stats(path)) for path in _paths({"d": config.data, "m": config.model}, working_dir)],
    }
    text = json.dumps(facts_used, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _tracer_hash() -> str:
    """Return the hash of Torchdeck's own code on disk, which may be newer than the running code."""
    package = Path(FOLDER)
    stamps: list[tuple[str, int, int]] = []
    for part in TRACER:
        path = package / part
        stamps += _python_stamps(path) if path.is_dir() else _stats(path)
    return _content_hash(package, tuple(stamps))


def _python_stamps(folder: Path | str) -> Iterator[tuple[str, int, int]]:
    """Yield path, size and time of each Python file below `folder`, in a fixed order."""
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        if entry.is_dir():
            yield from _python_stamps(entry.path)
        elif entry.name.endswith(".py"):
            stat = entry.stat()
            yield entry.path, stat.st_size, stat.st_mtime_ns


@lru_cache(maxsize=2)
def _content_hash(package: Path, stamps: tuple[tuple[str, int, int], ...]) -> str:
    """Return the hash of files below `package`, which are read again only if sizes or times have changed."""
    digest = hashlib.sha256()
    for name, _, _ in stamps:
        path = Path(name)
        digest.update(f"{path.relative_to(package)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _installed(executable: Path) -> Iterator[tuple[str, int]]:
    """Yield the interpreter's package folders, with the time of the last install or removal."""
    for packages in sorted(executable.parent.parent.glob("lib/python3*/*-packages")):
        with suppress(OSError):
            yield str(packages), packages.stat().st_mtime_ns


def _paths(value: Any, working_dir: Path) -> Iterator[Path]:
    """Yield every string in `value` that names an existing path."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _paths(item, working_dir)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _paths(item, working_dir)
    elif isinstance(value, str) and value:
        with suppress(OSError, ValueError):
            path = working_dir / Path(value).expanduser()
            if path.exists():
                yield path


def _stats(path: Path) -> Iterator[tuple[str, int, int]]:
    """Yield name, size and time of a file, or of everything below a folder."""
    seen = 0
    waiting = [path]
    while waiting and seen < _MAX_ENTRIES:
        here = waiting.pop()
        with suppress(OSError):
            found = here.stat()
            seen += 1
            yield str(here), found.st_size, found.st_mtime_ns
            if here.is_dir() and not here.is_symlink():
                waiting += sorted(here.iterdir(), reverse=True)[:_MAX_ENTRIES]
