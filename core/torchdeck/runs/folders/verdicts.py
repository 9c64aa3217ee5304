"""Results of hashing checkpoints: one small file next to the runs, so that the next start can use them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchdeck.contract.atomic import read_json, write_json
from torchdeck.contract.bounded_file import read_bounded
from torchdeck.contract.checkpoints.manifest import LARGEST_DOCUMENT, MANIFEST_NAME
from torchdeck.contract.layout import Home
from torchdeck.contract.lock_file import changing

_VERSION = 1


@dataclass(frozen=True)
class Verdict:
    """Result of hashing a checkpoint."""

    problems: tuple[str, ...]
    """Problems with it; empty if it is intact."""
    time: float
    """Unix time at which it was hashed."""
    seal: str
    """`seal_of` the checkpoint before it was hashed."""
    unchecked: int = 0
    """Files of a script's checkpoint that have no checksum."""


def without_checksum(files: int) -> str:
    """Return, as a clause, what was not checked; `files` is at least 1."""
    are, their = ("1 file has", "its") if files == 1 else (f"{files:,} files have", "their")
    return f"{are} no checksum, and only {their} presence and size were checked"


def seal_of(folder: Path) -> str:
    """Return a value that changes with the checkpoint: a hash over its manifest, if it has one, and over size
    and time of each file.

    Raises:
        OSError: it cannot be read, or its manifest is no regular file.
    """
    folder.stat()
    manifest = folder / MANIFEST_NAME
    seal = hashlib.sha256(read_bounded(manifest, LARGEST_DOCUMENT) if manifest.exists() else b"")
    files = [folder] if folder.is_file() else [path for path in folder.rglob("*") if path.is_file()]
    for path in sorted(files):
        status = path.stat()
        seal.update(f"\0{path.relative_to(folder)}\0{status.st_size}\0{status.st_mtime_ns}".encode())
    return seal.hexdigest()


def read_verdicts(home: Path) -> dict[Path, Verdict]:
    """Return all stored verdicts by the checkpoint's folder; none if the file is damaged or of a newer
    Torchdeck.

    Raises:
        OSError: it cannot be read.
    """
    value = read_json(Home(home).verified)
    if not isinstance(value, Mapping) or value.get("v") != _VERSION:
        return {}
    kept = value.get("checkpoints")
    if not isinstance(kept, Mapping):
        return {}
    return {Path(folder): verdict for folder, item in kept.items() if (verdict := _verdict(item)) is not None}


def keep_verdict(home: Path, folder: Path, verdict: Verdict) -> None:
    """Store the verdict; those of deleted checkpoints are dropped.

    Raises:
        OSError: it cannot be written.
    """
    path = Home(home).verified
    with changing(path):
        value = read_json(path)
        if isinstance(value, Mapping) and isinstance(value.get("v"), int) and value["v"] > _VERSION:
            return  # a newer Torchdeck manages it
        known = {each: old for each, old in read_verdicts(home).items() if each.exists()}
        known[folder] = verdict
        kept = {
            str(each): {
                "problems": list(old.problems),
                "time": old.time,
                "seal": old.seal,
                "unchecked": old.unchecked,
            }
            for each, old in known.items()
        }
        write_json(path, {"v": _VERSION, "checkpoints": kept})


def still_true(verdicts: Mapping[Path, Verdict], folders: Iterable[Path]) -> dict[Path, Verdict]:
    """Return the verdicts of those `folders` that have not changed since they were hashed."""
    return {
        folder: verdicts[folder]
        for folder in folders
        if folder in verdicts and _seal(folder) == verdicts[folder].seal
    }


def _seal(folder: Path) -> str | None:
    try:
        return seal_of(folder)
    except OSError:
        return None


def _verdict(value: Any) -> Verdict | None:
    if not isinstance(value, Mapping):
        return None
    problems, time, seal = value.get("problems"), value.get("time"), value.get("seal")
    if not isinstance(problems, list) or not isinstance(time, int | float) or not isinstance(seal, str):
        return None
    unchecked = value.get("unchecked")
    return Verdict(
        tuple(map(str, problems)), float(time), seal, unchecked if isinstance(unchecked, int) else 0
    )
