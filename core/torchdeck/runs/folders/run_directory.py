"""Run directory: its id, its creation, and opening an existing one."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from torchdeck.contract.bounded_file import open_regular
from torchdeck.contract.bounded_json import JsonError, parse_json_object
from torchdeck.contract.free_space import why_refused
from torchdeck.contract.journal import LINE_LIMIT, NewerFormatError
from torchdeck.contract.layout import FORMAT_VERSION, RunLayout
from torchdeck.contract.refusal import Refusal

SLUG_LENGTH = 40
ID_TRIES = 8


class RunDirectoryError(Refusal):
    """A run directory cannot be created or is not one; the message says which and why."""

    page = "index#where-runs-are-stored"


class NoRunDirectoryError(RunDirectoryError):
    """The named path is not the directory of a run."""

    is_usage = True


def slug(name: str) -> str:
    """Return `name` in lower-case letters, digits and single dashes; `run` if nothing is left of it."""
    text = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return text[:SLUG_LENGTH].strip("-") or "run"


def new_run_id(name: str, now: float) -> str:
    """Return an id such as `20261121T034455Z-byte-gpt-1f09ab`.

    Args:
        name: the run's name; only its slug is used.
        now: seconds since the epoch.
    """
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(now))}-{slug(name)}-{os.urandom(3).hex()}"


def create_run_directory(runs: Path, name: str, now: float) -> RunLayout:
    """Create a new, empty and unique run directory, mode 0700, with the folders that have one writer each.

    A dot before its name hides it: it is not treated as a run until `reveal`.

    Args:
        runs: folder of all runs; created if it does not exist.
        name: the run's name.
        now: seconds since the epoch, for the id.

    Raises:
        RunDirectoryError: it cannot be written.
    """
    try:
        runs.mkdir(mode=0o700, parents=True, exist_ok=True)
        layout = RunLayout(_exclusive(runs, name, now))
        for folder in (layout.control, layout.nodes, layout.attempts):
            folder.mkdir(mode=0o700)
    except OSError as error:
        raise RunDirectoryError(
            f"a run directory cannot be made in {runs}",
            why_refused(error, runs),
            "make room or set TORCHDECK_HOME to a folder you can write to",
        ) from error
    return layout


def reveal(layout: RunLayout) -> RunLayout:
    """Rename a hidden run directory to its own name, so that it is complete from the moment it is visible.

    Raises:
        OSError: it cannot be renamed.
    """
    named = shown(layout)
    layout.root.rename(named.root)
    return named


def shown(layout: RunLayout) -> RunLayout:
    """Return the same run directory, hidden or not, under its own name."""
    return RunLayout(layout.root.with_name(layout.root.name.removeprefix(".")))


def _exclusive(runs: Path, name: str, now: float) -> Path:
    for _ in range(ID_TRIES):
        path = runs / f".{new_run_id(name, now)}"
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return path
    raise RunDirectoryError(f"{ID_TRIES} random run ids in a row were taken in {runs}")


def open_run_directory(path: Path) -> RunLayout:
    """Open the run in `path`, after checking its version.

    Raises:
        RunDirectoryError: there is no run in it.
        NewerFormatError: it is from a newer Torchdeck.
    """
    layout = RunLayout(path)
    if not path.is_dir():
        raise NoRunDirectoryError(f"there is no run directory {path}")
    if layout.plan.is_symlink() and not layout.plan.exists():
        raise RunDirectoryError(
            f"{layout.plan.readlink().parent} is not reachable from here",
            "it is the run directory of a Slurm job",
            f"mount it, or remove {path}, which only links to it",
        )
    if not layout.plan.is_file() and not layout.journal.is_file():
        raise NoRunDirectoryError(
            f"{path} is not a run directory: it contains neither plan.json nor journal.jsonl"
        )
    version = _version_of_journal(layout.journal)
    if version is not None and version > FORMAT_VERSION:
        raise NewerFormatError(path, version)
    return layout


def _version_of_journal(path: Path) -> int | None:
    """Return the version of the first line; None if it cannot be read."""
    try:
        with open_regular(path) as file:
            version = parse_json_object(file.readline(LINE_LIMIT), limit=LINE_LIMIT, file_names=True).get("v")
    except (OSError, JsonError):
        return None
    return version if isinstance(version, int) else None
