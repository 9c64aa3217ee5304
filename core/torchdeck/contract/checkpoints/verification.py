"""Verification of a checkpoint's files against its manifest. Standard library only, like the manifest."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from torchdeck.contract.checkpoints.manifest import CheckpointError, FileEntry, Manifest, read_manifest
from torchdeck.contract.checkpoints.threads import in_threads

_BLOCK = 1 << 20
"""Bytes in memory per file that is being hashed: they stay in a core's cache."""


def verify(folder: Path) -> list[str]:
    """Return everything wrong with a checkpoint, every file hashed; empty if it is intact."""
    try:
        manifest = read_manifest(folder)
    except CheckpointError as error:
        return [str(error)]
    return verify_files(folder, manifest, manifest.files_here)


def verify_files(folder: Path, manifest: Manifest, names: Iterable[str]) -> list[str]:
    """Report what is wrong with the files `names` of a checkpoint, sizes first, then hashes.

    Several files are hashed at a time; the problems are in the order of `names`.
    """

    def problem(name: str) -> str | None:
        expected = manifest.files[name]
        return size_problem(folder, name, expected) or _hash_problem(folder, name, expected)

    listed = list(names)
    found = in_threads(problem, listed, [manifest.files[name].size for name in listed])
    return [each for each in found if each is not None]


def hash_file(path: Path) -> FileEntry:
    """Return size and SHA-256 of a file as it is now.

    Raises:
        OSError: it cannot be read.
    """
    digest = hashlib.sha256()
    size = 0
    with path.open("rb", buffering=0) as file:
        block = memoryview(bytearray(min(_BLOCK, os.fstat(file.fileno()).st_size + 1)))
        while length := file.readinto(block):
            digest.update(block[:length])
            size += length
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
