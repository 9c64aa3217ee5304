"""Manifest of a checkpoint.

Standard library only: agent, preflight and command line read checkpoints without torch. `manifest.json` is
committed last, so a folder without one is not a checkpoint. It lists every other file with its size and
SHA-256, and carries a hash of itself.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from torchdeck.contract.bounded_file import UnreadableFileError, read_bounded
from torchdeck.contract.bounded_json import parse_json
from torchdeck.contract.metrics.former_names import current_name
from torchdeck.contract.refusal import Refusal

MANIFEST_VERSION = 3
"""Newest version that is read: 1 had no metrics and no nodes, 3 has copies of files on other nodes."""
USUAL_VERSION = 2
"""Version of a checkpoint without such copies."""
MANIFEST_NAME = "manifest.json"
FINAL_NAME = "final"
UNCOMMITTED_NAME = ".uncommitted"
"""File in a folder from its creation until its manifest is committed: Torchdeck may clean it up."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
LARGEST_DOCUMENT = 256 << 20
"""Bytes."""
_LARGEST_MANIFEST = 64 << 20
"""Bytes; it has 150 for each file, so far above what any number of ranks makes."""


class CheckpointError(Refusal):
    """A checkpoint could not be saved or may not be loaded; the message tells which, why, and what to do."""

    page = "checkpoints#resume"


@dataclass(frozen=True)
class FileEntry:
    """Expected state of a file of a checkpoint: size in bytes and SHA-256 in lower-case hex."""

    size: int
    sha256: str
    node: str | None = None
    """Node that has the file; None if all nodes share the folder."""
    copies: tuple[str, ...] = ()
    """Further nodes that have a copy."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return all nodes that have it, its writer first; none if all nodes share the folder."""
        return () if self.node is None else (self.node, *self.copies)


@dataclass(frozen=True)
class Manifest:
    """Content of `manifest.json`."""

    step: int
    """Optimizer steps done."""
    world_size: int
    strategy: str
    run_id: str
    attempt: int
    created: float
    """Seconds since the epoch."""
    seconds: float
    """Duration of the save, up to the manifest."""
    position: Mapping[str, Any]
    """Position in the data order: `torchdeck.data.order.Position` as JSON."""
    model_fingerprint: str
    """SHA-256 over names, shapes and dtypes of the model's state."""
    files: Mapping[str, FileEntry]
    """Path relative to the checkpoint's folder (with `/`) → expected entry."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Results of the evaluation at this step, by name; only numbers (JSON has no NaN) are written."""
    version: int = USUAL_VERSION
    """Version of the format it is written in."""
    node: str | None = None
    """Node of this copy if each has files of its own; None if all are in one folder."""

    @property
    def files_here(self) -> Mapping[str, FileEntry]:
        """The files that lie next to this copy."""
        if self.node is None:
            return self.files
        return {name: entry for name, entry in self.files.items() if self.node in entry.nodes}

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the nodes that wrote its files; none if all share one folder."""
        return tuple(sorted({entry.node for entry in self.files.values() if entry.node is not None}))

    @property
    def parts_here(self) -> tuple[str, ...]:
        """Those of `parts` whose files lie next to this copy."""
        here = self.files_here
        elsewhere = {entry.node for name, entry in self.files.items() if name not in here}
        return tuple(node for node in self.parts if node not in elsewhere)

    @property
    def has_copies(self) -> bool:
        """Return whether some file is on several nodes."""
        return any(entry.copies for entry in self.files.values())

    @property
    def size(self) -> int:
        """Return the bytes of all files together, not counting the manifest."""
        return sum(entry.size for entry in self.files.values())

    @property
    def current_metrics(self) -> dict[str, float]:
        """Return `metrics` under the names of this version."""
        return {current_name(name): value for name, value in self.metrics.items()}

    @property
    def text(self) -> str:
        """Return the result of `render` as text."""
        return self.render().decode()

    def render(self) -> bytes:
        """Return the exact content of `manifest.json`; any other byte sequence is refused by `read_manifest`.

        Raises:
            ValueError: something in it cannot be expressed in JSON.
        """
        value: dict[str, Any] = {
            "v": self.version,
            "step": self.step,
            "world_size": self.world_size,
            "strategy": self.strategy,
            "run_id": self.run_id,
            "attempt": self.attempt,
            "created": self.created,
            "seconds": self.seconds,
            "position": dict(self.position),
            "model_fingerprint": self.model_fingerprint,
            "files": entries_to_json(self.files),
        }
        if self.version > 1:
            value["metrics"] = {
                name: float(number) for name, number in self.metrics.items() if math.isfinite(number)
            }
        if self.node is not None:
            value["node"] = self.node
        return _encode({**value, "sha256": hashlib.sha256(_encode(value)).hexdigest()})


def checkpoint_name(step: int) -> str:
    """Return the folder name of the checkpoint after `step` optimizer steps."""
    return f"step_{step:08d}"


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest in `folder`, validated.

    Raises:
        CheckpointError: there is none, it is incomplete, was edited, or is from a newer Torchdeck.
    """
    path = folder / MANIFEST_NAME
    if path.is_symlink():
        raise CheckpointError(f"{path} is a link, not a regular file: it is no checkpoint's manifest")
    try:
        content = read_document(path, "manifest")
    except (FileNotFoundError, NotADirectoryError):
        why = (
            "the save was interrupted, or it is not a checkpoint"
            if folder.is_dir()
            else "there is no such folder"
        )
        raise CheckpointError(f"{folder} holds no {MANIFEST_NAME}: {why}") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    return parse_manifest(content, path)


def parse_manifest(content: bytes, path: Path) -> Manifest:
    """Parse the manifest whose exact bytes are `content`, those of the file `path`. Raises as
    `read_manifest`.
    """
    try:
        value = parse_json(content, limit=_LARGEST_MANIFEST, python_numbers=True)
        version = value["v"]
    except (ValueError, TypeError, KeyError) as error:
        raise CheckpointError(f"{path} is damaged: it is not a checkpoint's manifest ({error})") from None
    if isinstance(version, int) and version > MANIFEST_VERSION:
        raise CheckpointError(
            f"{path.parent} was written by a newer Torchdeck (format {version}, this one reads up to "
            f"{MANIFEST_VERSION}): update Torchdeck to use this checkpoint"
        )
    try:
        manifest = _manifest_from(value)
        rendered = manifest.render()
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged: {type(error).__name__}: {error}") from None
    if rendered != content:
        raise CheckpointError(f"{path} is damaged or was edited: it does not fit its own hash")
    return manifest


def read_document(path: Path, what: str) -> bytes:
    """Return the content of a file that is no pipe, and not of absurd size.

    Args:
        path: the file.
        what: its role in a checkpoint, as in "manifest".

    Raises:
        CheckpointError: it is something else.
        OSError: it cannot be read.
    """
    try:
        return read_bounded(path, LARGEST_DOCUMENT)
    except UnreadableFileError as error:
        raise CheckpointError(f"{error}: it is no checkpoint's {what}") from None


def _encode(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8") + b"\n"


def _entry_to_json(entry: FileEntry) -> dict[str, Any]:
    value: dict[str, Any] = {"size": entry.size, "sha256": entry.sha256}
    if entry.node is not None:
        value["node"] = entry.node
    if entry.copies:
        value["copies"] = list(entry.copies)
    return value


def _manifest_from(value: Mapping[str, Any]) -> Manifest:
    version = _count(value, "v")
    if version < 1:
        raise ValueError(f"there is no format {version}")
    position = value["position"]
    metrics = value["metrics"] if version > 1 else {}
    if not isinstance(position, dict) or not isinstance(metrics, dict):
        raise TypeError("position or metrics is not an object")
    files = {_relative(name): _entry(name, entry) for name, entry in value["files"].items()}
    if not files:
        raise ValueError("it names no files")
    return Manifest(
        step=_count(value, "step"),
        world_size=_count(value, "world_size"),
        strategy=_text(value, "strategy"),
        run_id=_text(value, "run_id"),
        attempt=_count(value, "attempt"),
        created=_number(value, "created"),
        seconds=_number(value, "seconds"),
        position=position,
        model_fingerprint=_text(value, "model_fingerprint"),
        files=files,
        metrics={name: _number(metrics, name) for name in metrics},
        version=version,
        node=_text(value, "node") if "node" in value else None,
    )


def entries_to_json(files: Mapping[str, FileEntry]) -> dict[str, Any]:
    """Return files of a checkpoint as in its manifest."""
    return {name: _entry_to_json(entry) for name, entry in files.items()}


def entries_from_json(value: Any) -> dict[str, FileEntry]:
    """Reverse `entries_to_json`; raises ValueError if `value` is something else."""
    try:
        return {_relative(name): _entry(name, entry) for name, entry in value.items()}
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"it is no list of files ({type(error).__name__}: {error})") from None


def _relative(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in name or str(path) != name:
        raise ValueError(f"file {name!r} is not a plain path inside the checkpoint")
    if path.parts[0].casefold() in (MANIFEST_NAME, UNCOMMITTED_NAME):
        raise ValueError(f"it names {name!r}: no manifest can have its own hash")
    return name


def _entry(name: str, value: Mapping[str, Any]) -> FileEntry:
    digest = value["sha256"]
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
        raise ValueError(f"the hash of {name} is not a SHA-256")
    node = _text(value, "node") if "node" in value else None
    copies = value.get("copies", [])
    if not isinstance(copies, list) or not all(isinstance(copy, str) for copy in copies):
        raise ValueError(f"copies of {name} are {copies!r}, not names of nodes")
    return FileEntry(_count(value, "size"), digest, node, tuple(copies))


def _count(value: Mapping[str, Any], name: str) -> int:
    number = value[name]
    if type(number) is not int or number < 0:
        raise ValueError(f"{name} is {number!r}, not a whole number")
    return number


def _number(value: Mapping[str, Any], name: str) -> float:
    number = value[name]
    if type(number) not in (int, float) or not math.isfinite(number):
        raise ValueError(f"{name} is {number!r}, not a number")
    return float(number)


def _text(value: Mapping[str, Any], name: str) -> str:
    text = value[name]
    if not isinstance(text, str):
        raise TypeError(f"{name} is {text!r}, not a text")
    return text
