"""One run's directory: its id, its making, and opening one that is there."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from torchdeck.contract.bounded_file import open_regular
from torchdeck.contract.bounded_json import JsonError, parse_json_object
from torchdeck.contract.inodes import why_refused
from torchdeck.contract.journal import LINE_LIMIT, NewerFormatError
from torchdeck.contract.layout import FORMAT_VERSION, RunLayout
from torchdeck.contract.refusal import Refusal

SLUG_LENGTH = 40
ID_TRIES = 8


class RunDirectoryError(Refusal):
    """A run directory cannot be made or is not one; the message says which and why."""


class NoRunDirectoryError(RunDirectoryError):
    """What was named is not the directory of a run."""

    is_usage = True


def slug(name: str) -> str:
    """`name` in lower-case letters, digits and single dashes; `run` when nothing is left of it."""
    text = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return text[:SLUG_LENGTH].strip("-") or "run"


def new_run_id(name: str, now: float) -> str:
    """An id such as `20261121T034455Z-byte-gpt-1f09ab`.

    Args:
        name: the run's name; only its slug goes in.
        now: seconds since the epoch.
    """
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(now))}-{slug(name)}-{os.urandom(3).hex()}"


def create_run_directory(runs: Path, name: str, now: float, *, hidden: bool = False) -> RunLayout:
    """A new, empty run directory that nobody else has, mode 0700, with the folders that have one writer each.

    Args:
        runs: folder that all runs lie in; made when it is not there.
        name: the run's name.
        now: seconds since the epoch, for the id.
        hidden: it has a dot before its id, and is no run for anybody, until `reveal`.

    Raises:
        RunDirectoryError: it cannot be written.
    """
    try:
        runs.mkdir(mode=0o700, parents=True, exist_ok=True)
        layout = RunLayout(_exclusive(runs, name, now, "." if hidden else ""))
        for folder in (layout.control, layout.nodes, layout.attempts):
            folder.mkdir(mode=0o700)
    except OSError as error:
        raise RunDirectoryError(
            f"a run directory cannot be made in {runs}",
            why_refused(error, runs),
            "make room or set TORCHDECK_HOME to a folder you may write in",
        ) from error
    return layout


def reveal(layout: RunLayout) -> RunLayout:
    """A hidden run directory under its own name, whole from the first moment that anybody sees it.

    Raises:
        OSError: it cannot be renamed.
    """
    named = shown(layout)
    layout.root.rename(named.root)
    return named


def shown(layout: RunLayout) -> RunLayout:
    """The same run directory, hidden or not, under its own name."""
    return RunLayout(layout.root.with_name(layout.root.name.removeprefix(".")))


def _exclusive(runs: Path, name: str, now: float, before: str) -> Path:
    for _ in range(ID_TRIES):
        path = runs / f"{before}{new_run_id(name, now)}"
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return path
    raise RunDirectoryError(f"{ID_TRIES} random run ids in a row were taken in {runs}")


def open_run_directory(path: Path) -> RunLayout:
    """The run in `path`, after a look at its version.

    Raises:
        RunDirectoryError: there is no run in it.
        NewerFormatError: it is from a newer Torchdeck.
    """
    layout = RunLayout(path)
    if not path.is_dir():
        raise NoRunDirectoryError(f"there is no run directory {path}")
    if not layout.plan.is_file() and not layout.journal.is_file():
        raise NoRunDirectoryError(
            f"{path} is not a run directory: there is neither plan.json nor journal.jsonl in it"
        )
    version = _version_of_journal(layout.journal)
    if version is not None and version > FORMAT_VERSION:
        raise NewerFormatError(path, version)
    return layout


def _version_of_journal(path: Path) -> int | None:
    """Version of the first line; None when there is none to be read."""
    try:
        with open_regular(path) as file:
            version = parse_json_object(file.readline(LINE_LIMIT), limit=LINE_LIMIT, file_names=True).get("v")
    except (OSError, JsonError):
        return None
    return version if isinstance(version, int) else None
