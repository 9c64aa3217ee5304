"""Removing what this node has of runs that were deleted elsewhere: folders, and code no other run uses."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from torchdeck.agent.probe.runs import is_supervised, is_supervised_anywhere, running
from torchdeck.contract.bounded_file import open_regular
from torchdeck.contract.layout import RUN_ID, TRASH_PREFIX, Home, RunLayout
from torchdeck.contract.processes import boot_id

TRIES = 1000
"""Most retries of a removal because another process removes the same folder, each time further."""


def remove_runs(home: Path, question: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the folders of the runs `run_ids` below `home`, none of which a process lives.

    Returns:
        `removed`: run ids; `absent`: those that this node has nothing of; `kept`: run id → why it stays.
    """
    removed: list[str] = []
    absent: list[str] = []
    kept: dict[str, str] = {}
    for run_id in map(str, question["run_ids"]):
        layout = Home(home).run(run_id)
        folder, aside = layout.root, layout.trash()
        if RUN_ID.fullmatch(run_id) is None:
            kept[run_id] = f"{run_id!r} is no run's id"
        elif not (_is_plain(folder) or _is_plain(aside)):
            absent.append(run_id)
        elif why := lives_here(run_id, folder) or lives_on_a_sharing_node(folder):
            kept[run_id] = why
        else:
            try:
                _remove(home, folder)
                removed.append(run_id)
            except OSError as error:
                kept[run_id] = f"{error.filename or folder}: {error.strerror or error}"
    return {"removed": removed, "absent": absent, "kept": kept}


def run_folders(home: Path, question: Mapping[str, Any]) -> dict[str, Any]:
    """The folders of runs below `home`, without those of the runs `known`. Raises OSError.

    Returns:
        `place`: what tells the folder of runs from others, by whatever name the node is known; `folders`: for
        each run `run_id` and `bytes` of its files; `others`: runs that something lives of here, or on a node
        that shares the folder, or that were started on this very node.
    """
    runs = Home(home).runs
    try:
        status, folders = runs.stat(), sorted(runs.iterdir())
    except FileNotFoundError:  # no run was ever here
        return {"place": "", "folders": [], "others": []}
    known = set(map(str, question.get("known", ())))
    living = {run["run_id"] for run in running()}
    sizes: dict[str, int] = {}
    others: set[str] = set()
    for folder in folders:
        run_id = folder.name.removeprefix(TRASH_PREFIX)
        if run_id in known or RUN_ID.fullmatch(run_id) is None or not _is_plain(folder):
            continue
        if run_id in living or _is_own(folder) or is_supervised(folder) or is_supervised_anywhere(folder):
            others.add(run_id)
        else:
            sizes[run_id] = sizes.get(run_id, 0) + room_of(folder)
    return {
        # containers and accounts of one host have the same boot; what they share is the same folder
        "place": f"{boot_id()} {status.st_dev} {status.st_ino}",
        "folders": [
            {"run_id": run_id, "bytes": size} for run_id, size in sizes.items() if run_id not in others
        ],
        "others": sorted(others),
    }


def _is_own(folder: Path) -> bool:
    """The journal of a run, unlike a node's, is written on the machine that started it."""
    try:
        return RunLayout(folder).journal.exists()
    except OSError:  # it cannot be read: unknown here
        return True


def room_of(folder: Path, check: Callable[[], None] = lambda: None) -> int:
    """Return the bytes of the regular files below `folder`.

    Args:
        folder: a run's, for example.
        check: called for each file; an exception from it ends the count.
    """
    total = 0
    for _, status in below(str(folder)):
        check()
        if stat.S_ISREG(status.st_mode):
            total += status.st_size
    return total


def lives_here(run_id: str, folder: Path) -> str:
    """Describe the run's live processes on this node, as a sentence; empty if there are none."""
    pids = [pid for run in running() if run["run_id"] == run_id for pid in run["processes"]]
    if pids:
        return f"processes of the run are alive there: pid {', '.join(map(str, sorted(pids)))}"
    return "the run's agent is alive there" if is_supervised(folder) else ""


def lives_on_a_sharing_node(folder: Path) -> str:
    """Describe the run's live agent on a node that shares the home, as a sentence; empty if there is none."""
    shared = is_supervised_anywhere(folder)
    return "the run's agent is alive on another node with the same home" if shared else ""


def _remove(home: Path, folder: Path) -> None:
    """As `runs.deletion` does; a removal that is cut short leaves no half of a run. Raises OSError."""
    aside = RunLayout(folder).trash()
    if _is_plain(aside):  # of a removal that was cut short
        _remove_aside(home, aside)
    if _is_plain(folder):
        # another process that knows this node by another name did it
        with contextlib.suppress(FileNotFoundError):
            folder.rename(aside)
        _remove_aside(home, aside)


def _remove_aside(home: Path, aside: Path) -> None:
    from torchdeck.agent.snapshots.folder import free, read_manifest

    copied = read_manifest(RunLayout(aside))
    for left in reversed(range(TRIES)):
        try:
            shutil.rmtree(aside)
            break
        # another process is removing it, too, and was quicker with one of its files
        except FileNotFoundError:
            if not _is_plain(aside):
                break
            if not left:
                raise
    free(home, copied)


def _is_plain(folder: Path) -> bool:
    return folder.is_dir() and not folder.is_symlink()


# Runs that lie on this node, and their files: listed, read piece by piece, hashed.

PIECE = 1 << 20
"""Bytes of one answer at most."""
PROBLEMS = 1000
"""Lines of one answer at most."""
ENTRIES = 30_000
"""Files that one answer lists at most; it must stay below what the other side takes."""


def runs_of(home: Path) -> dict[str, Any]:
    """Return the folder of runs, and the names of those with a plan."""
    folder = Home(home).runs
    found: list[str] = []
    with contextlib.suppress(OSError):
        found = sorted(path.name for path in folder.iterdir() if (path / "plan.json").is_file())
    return {"folder": str(folder), "runs": found}


def tree(question: Mapping[str, Any]) -> dict[str, Any]:
    """Plain files below `folder`: `[path, size, mtime_ns]` each, without what is in the folders `without`.

    If `folder` is a plain file itself, it is the one, by its name.
    Links are not followed; `links` says how many there are, `cut` whether there are more files than fit.
    """
    folder = str(Path(str(question["folder"])).expanduser())
    without = {os.path.join(folder, str(name)) for name in question.get("without", ())}  # noqa: PTH118 - names are bytes' texts
    files: list[list[Any]] = []
    links = 0
    with contextlib.suppress(OSError):
        own = Path(folder).lstat()
        if stat.S_ISREG(own.st_mode):
            files.append([Path(folder).name, own.st_size, own.st_mtime_ns])
    for path, status in below(folder, without):
        if stat.S_ISLNK(status.st_mode):
            links += 1
        elif stat.S_ISREG(status.st_mode):
            if len(files) >= ENTRIES:
                return {"files": files, "links": links, "cut": True}
            files.append([os.path.relpath(path, folder), status.st_size, status.st_mtime_ns])
    return {"files": files, "links": links, "cut": False}


def read(question: Mapping[str, Any]) -> dict[str, Any]:
    """At most `size` bytes of the file at `path` from `at` on, in base64, and how long it is."""
    size = max(0, min(PIECE, int(question["size"])))
    with open_regular(str(question["path"])) as file:
        data = os.pread(file.fileno(), size, int(question["at"]))
        length = os.fstat(file.fileno()).st_size
    return {"data": base64.b64encode(data).decode("ascii"), "size": length}


def digest(question: Mapping[str, Any]) -> dict[str, Any]:
    """SHA-256 of the file at `path`."""
    found = hashlib.sha256()
    with open_regular(str(question["path"])) as file:
        while data := file.read(PIECE):
            found.update(data)
    return {"sha256": found.hexdigest()}


def checkpoint_problems(question: Mapping[str, Any]) -> dict[str, Any]:
    """Problems of the checkpoint of a script at `path`, a line each, and how many of its files have no
    checksum; it is read whole.
    """
    from torchdeck.trainers.checkpoints.soundness import soundness_of

    found = soundness_of(Path(str(question["path"])))
    return {"problems": found.problems[:PROBLEMS], "unchecked": found.unchecked}


def below(folder: str, without: Collection[str] = ()) -> Iterator[tuple[str, os.stat_result]]:
    """Everything below `folder` but folders, and what is known of it; links are not followed."""
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            entries = sorted(os.scandir(here), key=lambda entry: entry.name)
        except OSError:
            continue  # gone meanwhile, or not ours
        for entry in entries:
            if entry.path in without:
                continue
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    yield entry.path, entry.stat(follow_symlinks=False)
