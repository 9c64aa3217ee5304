"""Virtual, conda and uv environments of the user, with their versions, by their files: none is executed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torchdeck.agent.probe.pythons import facts_of
from torchdeck.contract.bounded_file import UnreadableFileError, read_bounded

MOST = 16
"""Environments that are reported, those with torch first."""
MOST_LOOKED = 4_000
"""Names that are looked at."""
_CONFIG_LIMIT = 64 * 1024
_SHELVES = (
    *(".virtualenvs", "venvs", ".venvs", "envs", ".local/share/virtualenvs", ".cache/pypoetry/virtualenvs"),
    *(".conda/envs", ".pyenv/versions"),
)
"""Folders of environments, below the home folder."""
_CONDA = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".conda")
_CONDA_LIST = ".conda/environments.txt"
_OWN = (".venv", "venv")
"""Names of an environment inside a project."""
_VERSION = re.compile(r"^version(?:_info)?\s*=\s*(\d+\.\d+(?:\.\d+)?)", re.MULTILINE)
_CONDA_PYTHON = re.compile(r"python-(\d+\.\d+\.\d+)-.*\.json")


def environments(home: Path, working_dir: Path | None = None) -> list[dict[str, Any]]:
    """Return the environments below `home`, those with torch first, as `pythons.asked_python` describes one.

    Args:
        home: the user's home folder.
        working_dir: a project whose own environment comes first, too.
    """
    found: dict[str, dict[str, Any]] = {}
    for folder in _folders(home, working_dir):
        facts = _facts(folder)
        if facts is not None:
            found.setdefault(str(folder), facts)
    return sorted(found.values(), key=lambda facts: facts["torch"] is None)[:MOST]


def _facts(folder: Path) -> dict[str, Any] | None:
    python = folder / "bin" / "python"
    version = _venv_version(folder) or _conda_version(folder)
    try:
        if not version or not python.exists():
            return None
        packages = sorted(map(str, folder.glob("lib/python3*/site-packages")))
    except OSError:
        return None
    return {**facts_of(str(python), version, packages), "chosen": False}


def _venv_version(folder: Path) -> str:
    try:
        text = read_bounded(folder / "pyvenv.cfg", _CONFIG_LIMIT).decode("utf-8", "replace")
    except (OSError, UnreadableFileError):
        return ""
    match = _VERSION.search(text)
    return match[1] if match else ""


def _conda_version(folder: Path) -> str:
    names = (path.name for path in _entries(folder / "conda-meta"))
    return next((match[1] for name in names if (match := _CONDA_PYTHON.fullmatch(name))), "")


def _folders(home: Path, working_dir: Path | None) -> Iterator[Path]:
    """Yield folders that may be environments."""
    for project in (working_dir, home):
        if project is not None:
            yield from (project / name for name in _OWN)
    for conda in _CONDA:
        yield home / conda
        yield from _entries(home / conda / "envs")
    for shelf in _SHELVES:
        yield from _entries(home / shelf)
    try:
        lines = read_bounded(home / _CONDA_LIST, _CONFIG_LIMIT).decode("utf-8", "replace").splitlines()
        yield from (Path(line) for line in lines if line.startswith("/") and "\0" not in line)
    except (OSError, UnreadableFileError):
        pass
    left = MOST_LOOKED
    for project in _entries(home):
        left -= 1
        if left < 0:
            return
        yield from (project / name for name in _OWN)
        if not project.name.startswith("."):
            for inner in _entries(project):
                left -= 1
                yield from (inner / name for name in _OWN)


def _entries(folder: Path) -> list[Path]:
    """Return the folder's entries, sorted; none of what cannot be read."""
    try:
        return sorted(folder.iterdir())[:MOST_LOOKED]
    except OSError:
        return []
