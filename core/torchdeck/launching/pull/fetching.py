"""Resumable transfer of one file from a node."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.probe.remote_files import RemoteFile, RemoteFiles

OnBytes = Callable[[int], None]
"""Called with the number of bytes received; those that were here already count."""
PART = ".part"


class NotWholeError(Refusal):
    """The received data is not what is on the node; the message says which file."""

    page = "machines#during-the-run"


def fetch(files: RemoteFiles, path: str, target: Path, size: int, on_bytes: OnBytes) -> None:
    """Append to `target` the missing bytes of the first `size` bytes of the node's file at `path`.

    Raises:
        ProbeError, SshError: the node did not send it; received data stays.
        OSError: it cannot be written.
    """
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "ab") as file:
        have = os.fstat(descriptor).st_size
        if have > size:
            file.truncate(0)
            have = 0
        on_bytes(have)
        for data in files.pieces(path, have, size):
            file.write(data)
            on_bytes(len(data))
        file.flush()
        os.fsync(file.fileno())


def fetch_checked(files: RemoteFiles, folder: str, file: RemoteFile, target: Path, on_bytes: OnBytes) -> bool:
    """Fetch a file without a known hash; return False if it is here already, by size and time.

    Raises:
        NotWholeError: the file on the node has changed meanwhile.
        ProbeError, SshError, OSError: as `fetch`.
    """
    if _is_same(target, file):
        on_bytes(file.size)
        return False
    # partial data of another version of the file must not be continued
    part = target.with_name(f"{target.name[:150]}.{file.size}-{file.modified}{PART}")
    path = f"{folder}/{file.name}"
    fetch(files, path, part, file.size, on_bytes)
    if sha256_of(part) != files.digest(path):
        part.unlink()
        raise NotWholeError(f"{path} changed while it was being copied", fix="pull again")
    part.replace(target)
    os.utime(target, ns=(file.modified, file.modified))
    return True


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a local file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_same(target: Path, file: RemoteFile) -> bool:
    try:
        status = target.lstat()
    except OSError:
        return False
    return (status.st_size, status.st_mtime_ns) == (file.size, file.modified)
