"""Atomic files: either complete or absent."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from torchdeck.contract.bounded_json import LIMIT, JsonError, read_json_file


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable (a rename is only on disk after this)."""
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def sync_file(path: Path) -> None:
    """Make the content of a file durable, whichever process wrote it."""
    _sync(path, os.O_RDONLY)


def write_bytes(
    path: Path, content: bytes, *, durable: bool = True, private: bool = False, mode: int | None = None
) -> None:
    """Replace `path` by `content` in one step.

    Args:
        path: the file; its folder must exist.
        content: the whole new content.
        durable: sync file and folder, so that the file survives a power cut.
        private: no one else may read it, whatever the umask; else the umask decides.
        mode: permissions that it gets instead, whatever the umask: for example those of the file it replaces.

    Raises:
        OSError: the old file is unchanged, and no temporary file is left.
    """
    # not by the pid alone: hosts and containers that share a home have the same pids
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        first = 0o600 if private or mode is not None else 0o666
        with open(os.open(temporary, flags, first), "wb") as file:  # noqa: PTH123
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def write_json(path: Path, value: Any, *, durable: bool = True) -> None:
    """Replace `path` atomically by `value` as JSON with sorted keys; readable by its owner only."""
    text = json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False)
    write_bytes(path, text.encode("utf-8") + b"\n", durable=durable, private=True)


def read_json(path: Path, *, limit: int = LIMIT) -> Any:
    """Return the JSON value in `path`; None if the file is missing, incomplete, or exceeds the bounds of
    JSON.

    Raises:
        OSError: it exists but cannot be read.
    """
    try:
        return read_json_file(path, limit=limit)
    except (FileNotFoundError, NotADirectoryError, JsonError):
        return None


def copy_aside(path: Path) -> Path:
    """Copy a damaged file, before it is replaced, to a name next to it with the time; return the copy.

    Raises:
        OSError: it cannot be read, or the copy cannot be written.
    """
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
    write_bytes(aside, path.read_bytes(), private=True)
    return aside


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
