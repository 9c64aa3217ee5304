"""Record of the commit that a run's code is from, and of its changes since."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from torchdeck.contract.atomic import write_json
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.folders.git_state import BEGIN, GitState

LIMIT = 3.0
"""Seconds for all calls of git; a start does not wait longer."""
LARGEST = 1 << 20
"""Bytes of a diff that is kept."""
_MOST_UNTRACKED = 1000
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_CALL = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")
_PREFIXES = ("--src-prefix=a/", "--dst-prefix=b/")
_FILTER = re.compile(r"filter\.(.+)\.(?:clean|smudge|process|required)")


def record_git(layout: RunLayout, folder: Path, files: Collection[str]) -> None:
    """Write the state of the repository that contains `folder`; nothing without one, without git or in time.

    Programs that the repository's configuration names, such as filters, are not run.

    Args:
        layout: of the run.
        folder: of the code.
        files: relative names of the copied files; others are left out: they may hold secrets.
    """
    found = git_state(folder, files)
    if found is not None:
        with suppress(OSError):  # a run does not fail for it
            write_json(layout.git, found.to_json(), durable=False)


def git_state(folder: Path, files: Collection[str]) -> GitState | None:
    """Return the state of the repository, as `record_git`; None if it is unknown."""
    if not any((each / ".git").exists() for each in (folder, *folder.parents)):
        return None
    deadline = time.monotonic() + LIMIT
    head = _git(folder, deadline, "rev-parse", "HEAD", "--abbrev-ref", "HEAD")
    if head is None or len(lines := head.split()) != 2 or not _COMMIT.fullmatch(lines[0]):
        return None
    filters = _without_filters(folder, deadline)
    if filters is None:
        return None
    safe = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--no-renames")
    options = (*safe, *_PREFIXES, "--no-color", "--relative", "HEAD", "--", ".")
    diff = _git(folder, deadline, *filters, "diff", *options)
    others = _git(folder, deadline, "ls-files", "--others", "--exclude-standard", "-z", "--", ".")
    if diff is None or others is None:
        return None
    kept = _of_files(diff, files)
    is_cut = len(kept) > LARGEST
    untracked = sorted(set(others.split("\0")).intersection(files))[:_MOST_UNTRACKED]
    branch = "" if lines[1] == "HEAD" else lines[1]
    return GitState(lines[0], branch, "" if is_cut else kept, tuple(untracked), is_cut)


def _without_filters(folder: Path, deadline: float) -> tuple[str, ...] | None:
    """Return options with which git runs none of the filters that are configured; None if they are unknown.

    A folder that came from elsewhere has its own `.git/config`, and a filter in it is any command.
    """
    listed = _git(folder, deadline, "config", "--null", "--name-only", "--list")
    if listed is None:
        return None
    names = dict.fromkeys(match[1] for name in listed.split("\0") if (match := _FILTER.fullmatch(name)))
    off = (f"filter.{name}.{key}" for name in names for key in ("clean=", "process=", "required=false"))
    return tuple(word for setting in off for word in ("-c", setting))


def _of_files(diff: str, files: Collection[str]) -> str:
    """Return the parts of a diff that are about some files."""
    names = frozenset(files)
    parts = re.split(rf"(?m)^(?={BEGIN})", diff)
    return "".join(part for part in parts if _name_in(part) in names)


def _name_in(part: str) -> str:
    """Return the name in `diff --git a/NAME b/NAME`; empty for another line."""
    head = part.partition("\n")[0].removeprefix(BEGIN)
    name = head[2 : (len(head) - 1) // 2]
    return name if head == f"a/{name} b/{name}" else ""


def _git(folder: Path, deadline: float, *words: str) -> str | None:
    """Return the output of git; None if it fails or takes too long."""
    # without GIT_DIR and the like, which a hook sets for its own repository
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment = {**inherited, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(
            [*_CALL, *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=max(0.1, deadline - time.monotonic()),
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace")
