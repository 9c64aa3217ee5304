"""Verification of a checkpoint's files against its manifest. Standard library only, like the manifest."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from torchdeck.contract.checkpoints.manifest import CheckpointError, FileEntry, Manifest, read_manifest

_CHUNK = 1 << 20


def verify(folder: Path) -> list[str]:
    """Return everything wrong with a checkpoint, every file hashed; empty if it is intact."""
    try:
        manifest = read_manifest(folder)
    except CheckpointError as error:
        return [str(error)]
    return verify_files(folder, manifest, manifest.files_here)


def verify_files(folder: Path, manifest: Manifest, names: Iterable[str]) -> list[str]:
    """Report what is wrong with the files `names` of a checkpoint, sizes first, then hashes."""
    problems = []
    for name in names:
        expected = manifest.files[name]
        problem = size_problem(folder, name, expected)
        if problem is None:
            problem = _hash_problem(folder, name, expected)
        if problem is not None:
            problems.append(problem)
    return problems


def hash_file(path: Path) -> FileEntry:
    """Return size and SHA-256 of a file as it is now.

    Raises:
        OSError: it cannot be read.
    """
    digest = hashlib.sha256()
    size = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return FileEntry(size, digest.hexdigest())


def size_problem(folder: Path, name: str, expected: FileEntry) -> str | None:
    """Return why a file cannot match its manifest entry, without reading it; None if it can."""
    path = folder / name
    try:
        inner = [path, *path.parents[: len(PurePosixPath(name).parts) - 1]]
        linked = next((part for part in inner if part.is_symlink()), None)
        status = path.lstat()
    except OSError as error:
        return f"{path} is missing: {error.strerror}"
    if linked is not None:
        return f"{linked} is a link: a checkpoint holds its files itself"
    if not stat.S_ISREG(status.st_mode):
        return f"{path} is not a regular file"
    if status.st_size != expected.size:
        return f"{path} has {status.st_size} bytes, its manifest says {expected.size}"
    return None


def _hash_problem(folder: Path, name: str, expected: FileEntry) -> str | None:
    try:
        actual = hash_file(folder / name)
    except OSError as error:
        return f"{folder / name} cannot be read: {error.strerror}"
    if (actual.size, actual.sha256) != (expected.size, expected.sha256):
        return f"{folder / name} is damaged: SHA-256 {actual.sha256}, its manifest says {expected.sha256}"
    return None
