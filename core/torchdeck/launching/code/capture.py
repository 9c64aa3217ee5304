"""A run's own copy of the user's code, made together with the run's directory."""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from torchdeck.agent.snapshots.blobs import BlobMissingError, BlobStore
from torchdeck.agent.snapshots.folder import FolderBeingMade, making, put, store_of
from torchdeck.agent.snapshots.manifest import EXECUTABLE, LINK, Blob, Entry, Manifest
from torchdeck.contract.file_names import name_of, text_of
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import CodeTree, LaunchPlan
from torchdeck.launching.code.digests import Digests
from torchdeck.launching.code.scan import MAX_BYTES
from torchdeck.launching.code.secret_contents import SMALL, SecretSearch, secret_in
from torchdeck.plan.code_paths import is_copied
from torchdeck.runs.folders.run_directory import RunDirectoryError

TRIES = 3
"""Attempts to store a content that the end of another run frees at the same moment."""


class CodeGoneError(RunDirectoryError):
    """A file that the plan executes no longer exists; the message names it."""

    page = "start/script#your-code-a-copy-per-run"


def capture(layout: RunLayout, plan: LaunchPlan, home: Path) -> LaunchPlan:
    """Copy the plan's files into the run's directory; return the plan with what was actually copied.

    A file that changed since the plan was made is copied in its current state, and the plan is updated. A
    missing file is left out.

    Raises:
        CodeGoneError: the missing file is the one to execute.
        OSError: the home cannot be written.
    """
    code = plan.code
    if not code.folder:
        return plan
    folder, store = Path(code.folder), store_of(home)
    digests = Digests(home, folder)
    with making(layout) as made:
        entries = list(_copied(code, store, digests, made))
        manifest = Manifest.of(entries)
        files = {entry.name: entry.content for entry in manifest.entries}
        _check(plan, set(code.files) - set(files))
        if any(node.name == LOCALHOST for node in plan.all_nodes):
            link_what_stays(folder, made.root, files, home)
        put(layout, made, manifest)
    return plan if files == code.files else replace(plan, code=replace(code, files=files, size=manifest.size))


def _copied(code: CodeTree, store: BlobStore, digests: Digests, made: FolderBeingMade) -> Iterator[Entry]:
    for name, content in code.files.items():
        if content.startswith(LINK):
            made.link(Entry(name, content, 0))
            yield Entry(name, content, 0)
        elif (entry := _file(name, code, store, digests, made)) is not None:
            yield entry


def _file(
    name: str, code: CodeTree, store: BlobStore, digests: Digests, made: FolderBeingMade
) -> Entry | None:
    """Put a file in its place; None if it is gone, or holds credentials and was not requested by name."""
    relative = name_of(name)
    source = os.path.join(code.folder, relative)  # noqa: PTH118 - thousands of texts
    for attempt in range(TRIES):
        try:
            blob = _kept(name, source, store, digests, knowingly=name in code.knowingly)
            if blob is None:
                return None
            store.link(blob, made.path(relative))
            return Entry(name, blob.hash + (EXECUTABLE if blob.executable else ""), blob.size)
        except BlobMissingError:
            if attempt == TRIES - 1:
                raise
    return None


def _kept(name: str, source: str, store: BlobStore, digests: Digests, *, knowingly: bool) -> Blob | None:
    """Store the content of the file; return None if it holds credentials and `knowingly` is not set."""
    try:
        stat = os.stat(source, follow_symlinks=False)  # noqa: PTH116
        executable = bool(stat.st_mode & 0o100)
        known = digests.known(name, stat)
        if known is not None and (knowingly or not known.secret):
            blob = Blob(known.hash, stat.st_size, executable)
            if store.has(blob):
                return blob
        content = open(source, "rb", opener=_no_link)  # noqa: SIM115
    except OSError:
        return None
    with content:
        data = content.read(SMALL + 1)
        if len(data) > SMALL:
            content.seek(0)
            return _large(content, store, executable=executable, knowingly=knowingly)
    if not knowingly and secret_in(data):
        return None
    blob = Blob(hashlib.sha256(data).hexdigest(), len(data), executable)
    if not store.has(blob):
        store.put(blob, data)
    return blob


def _large(content: BinaryIO, store: BlobStore, *, executable: bool, knowingly: bool) -> Blob | None:
    hash_, size, written = store.add(content, MAX_BYTES)
    try:
        if not knowingly and _has_secret(written):
            return None
        blob = Blob(hash_, size, executable)
        if not store.has(blob):
            store.keep(blob, written)
        return blob
    finally:
        written.unlink(missing_ok=True)


def _has_secret(path: Path) -> bool:
    search = SecretSearch()
    with path.open("rb") as file:
        while part := file.read(SMALL):
            search.feed(part)
    return bool(search.end())


def _no_link(path: str, flags: int) -> int:
    """Do not follow links or read pipes and devices that were put there in the meantime."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _check(plan: LaunchPlan, gone: set[str]) -> None:
    """Raise an error if a file to start is missing."""
    if is_copied(plan.code, plan.target) and text_of(os.path.relpath(plan.target, plan.code.folder)) in gone:
        raise CodeGoneError(
            f"{plan.target} no longer exists or cannot be read, but the plan was made with it"
        )


# Links in a local run's copy to files that are not copied (data, results, files ignored by git).

_OWN = frozenset({"__pycache__"})
"""Byte code belongs to the files it was compiled from."""


def link_what_stays(folder: Path, copy: Path, names: Iterable[str], home: Path) -> int:
    """Link everything that was not copied, so that a script still finds it by `__file__`.

    Args:
        folder: the user's folder.
        copy: the copy being made of it.
        names: copied names, as in the plan.
        home: TORCHDECK_HOME; a folder that contains it gets no link, as the run is inside it.

    Returns:
        The number of links created. What cannot be linked is skipped.
    """
    copied = {name_of(name) for name in names}
    folders = {"", *(parent for name in copied for parent in _parents(name))}
    count = 0
    for inside in folders:
        for entry in _entries(folder / inside):
            name = posixpath.join(inside, entry.name)
            if name in copied or name in folders or entry.name in _OWN or _holds(entry.path, home):
                continue
            with suppress(OSError):
                (copy / name).symlink_to(entry.path)
                count += 1
    return count


def _parents(name: str) -> Iterable[str]:
    while name := posixpath.dirname(name):
        yield name


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _holds(path: str, home: Path) -> bool:
    return f"{home}/".startswith(f"{path}/")
