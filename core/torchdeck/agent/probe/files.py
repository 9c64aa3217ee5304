"""Runs that lie on this node, and their files: listed, read piece by piece, hashed."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from torchdeck.contract.layout import Home

PIECE = 1 << 20
"""Bytes of one answer at most."""
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

    Links are not followed; `links` says how many there are, `cut` whether there are more files than fit.
    """
    folder = str(Path(str(question["folder"])).expanduser())
    without = {os.path.join(folder, str(name)) for name in question.get("without", ())}  # noqa: PTH118 - names are bytes' texts
    files: list[list[Any]] = []
    links = 0
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
    descriptor = os.open(str(question["path"]), os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{question['path']} is no plain file")
        data = os.pread(descriptor, size, int(question["at"]))
        return {"data": base64.b64encode(data).decode("ascii"), "size": status.st_size}
    finally:
        os.close(descriptor)


def digest(question: Mapping[str, Any]) -> dict[str, Any]:
    """SHA-256 of the file at `path`."""
    found = hashlib.sha256()
    with Path(str(question["path"])).open("rb") as file:
        while data := file.read(PIECE):
            found.update(data)
    return {"sha256": found.hexdigest()}


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
