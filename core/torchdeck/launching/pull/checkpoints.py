"""Transfer of checkpoints from the nodes of a run, which may have a share each; verified by their hashes."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.atomic import write_bytes
from torchdeck.contract.checkpoints.listing import inspect
from torchdeck.contract.checkpoints.manifest import (
    LARGEST_DOCUMENT,
    MANIFEST_NAME,
    USUAL_VERSION,
    CheckpointError,
    FileEntry,
    Manifest,
    parse_manifest,
    read_manifest,
)
from torchdeck.contract.checkpoints.verification import verify, verify_files
from torchdeck.launching.pull.fetching import NotWholeError, OnBytes, fetch
from torchdeck.nodes.background import on_each
from torchdeck.nodes.probe.remote_files import RemoteFiles

STAGING = ".pulling-"
"""Name prefix of a folder that a checkpoint is transferred into."""
TRIES = 2
"""Number of tries. A file with a wrong hash began with another save of the same step, and is fetched again
once.
"""


@dataclass(frozen=True)
class Place:
    """One node's folder of checkpoints."""

    node: str
    files: RemoteFiles
    folder: str


@dataclass(frozen=True)
class Found:
    """One checkpoint on the nodes."""

    name: str
    step: int
    places: tuple[Place, ...]


def find(places: Sequence[Place]) -> list[Found]:
    """Return the checkpoints that have a manifest on some node, oldest first. Raises ProbeError, SshError."""
    by_name: dict[str, list[Place]] = {}
    for place in places:
        for file in place.files.tree(place.folder):
            folder, _, name = file.name.partition("/")
            if name == MANIFEST_NAME and not folder.startswith("."):
                by_name.setdefault(folder, []).append(place)
    found = [Found(name, _step(name), tuple(there)) for name, there in by_name.items()]
    # `final` has the last step
    return sorted(found, key=lambda each: (each.step < 0, each.step, each.name))


def pull(found: Found, target: Path, on_bytes: OnBytes, staging: Path) -> bool:
    """Fetch a checkpoint to `target`, completely or not at all; return False if it is here already.

    Args:
        found: checkpoint on the nodes.
        target: its folder here.
        on_bytes: called with the bytes received.
        staging: a folder next to it, which keeps received data if this is interrupted.

    Raises:
        NotWholeError: shares are on nodes that do not answer, or the received files do not match the
            manifest.
        ProbeError, SshError: a node does not answer any more.
        OSError: it cannot be written.
    """
    if (here := inspect(target)) is not None and here.complete and not verify(target):
        on_bytes(here.size)
        return False
    manifests = dict(_manifests(found, staging))
    first = next(iter(manifests.values()))
    parts = _parts(found, manifests)
    missing = set(first.files) - set(parts)
    if missing:
        raise NotWholeError(
            f"{found.name} has parts on nodes that do not answer ({len(missing)} files, such as "
            f"{min(missing)}): all nodes of the run must answer"
        )
    whole = replace(
        first,
        node=None,
        version=min(first.version, USUAL_VERSION),
        files={name: replace(entry, node=None, copies=()) for name, entry in first.files.items()},
    )
    for name, place in parts.items():
        _bring(whole, name, place, found.name, staging, on_bytes)
    write_bytes(staging / MANIFEST_NAME, whole.render(), private=True)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if target.exists():
        shutil.rmtree(target)  # of the same name, and incomplete
    staging.rename(target)
    return True


def total(found: Found, staging: Path) -> int:
    """Return the bytes of a checkpoint, after fetching its manifests. Raises as `pull`."""
    return next(iter(dict(_manifests(found, staging)).values())).size


def _manifests(found: Found, staging: Path) -> Iterator[tuple[Place, Manifest]]:
    """Yield each node's manifest of it, all of the same save."""
    one: Manifest | None = None
    for number, place in enumerate(found.places):
        content = place.files.content(f"{place.folder}/{found.name}/{MANIFEST_NAME}", LARGEST_DOCUMENT)
        folder = staging / f"{STAGING}{number}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_bytes(folder / MANIFEST_NAME, content, durable=False, private=True)
        try:
            manifest = read_manifest(folder)
        except CheckpointError as error:
            raise NotWholeError(f"{found.name} on node {place.node} is damaged: {error}") from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if one is not None and replace(manifest, node=one.node) != one:
            raise NotWholeError(
                f"{found.name} on node {place.node} is from a different save than on {found.places[0].node}"
            )
        one = one or manifest
        yield place, manifest


def _parts(found: Found, manifests: Mapping[Place, Manifest]) -> dict[str, Place]:
    """Return file of the checkpoint → a node that has it."""
    parts: dict[str, Place] = {}
    for place in found.places:
        for name in manifests[place].files_here:
            parts.setdefault(name, place)
    return parts


def _bring(
    whole: Manifest, name: str, place: Place, checkpoint: str, staging: Path, on_bytes: OnBytes
) -> None:
    path = f"{place.folder}/{checkpoint}/{name}"
    target = staging / name
    problems: list[str] = []
    for _ in range(TRIES):
        fetch(place.files, path, target, whole.files[name].size, on_bytes)
        problems = verify_files(staging, whole, [name])
        if not problems:
            return
        on_bytes(-whole.files[name].size)
        target.unlink()
    raise NotWholeError(f"node {place.node}: {problems[0]}")


def _step(name: str) -> int:
    digits = name.rpartition("_")[2]
    return int(digits) if digits.isdecimal() else -1


# Verification of checkpoints on the nodes that have them: every file is hashed there.

OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Verified:
    """One checkpoint as stored on its nodes."""

    name: str
    step: int
    path: str
    """Folder on the first of them."""
    nodes: tuple[str, ...]
    problems: tuple[str, ...]
    """Problems with it, one sentence each, with the node."""
    unseen: tuple[str, ...]
    """Files of it that no answering node has."""


class _Part(NamedTuple):
    place: Place
    manifest: Manifest


def verify_on_nodes(found: Found, on_progress: OnProgress) -> Verified:
    """Hash every file of a checkpoint on each node that has it, on all nodes at once.

    Args:
        found: checkpoint on the nodes.
        on_progress: called with the checkpoint's name, hashed bytes, and total bytes.

    Raises:
        ProbeError, SshError: a node does not answer any more.
    """
    problems: list[str] = []
    parts: list[_Part] = []
    for place in found.places:
        try:
            parts.append(_Part(place, _manifest(found, place)))
        except CheckpointError as error:
            problems.append(f"node {place.node}: {error}")
    problems += _of_another_save(parts)
    if parts and parts[0].manifest.node is None:
        del parts[1:]  # all nodes share one folder
    hashed = _Hashed(found.name, parts, on_progress)
    for wrong in on_each(parts, lambda part: _problems(found, part, hashed), "verify"):
        problems += wrong
    seen = {name for part in parts for name in part.manifest.files_here}
    unseen = sorted(set(parts[0].manifest.files) - seen) if parts else []
    return Verified(
        found.name,
        parts[0].manifest.step if parts else found.step,
        f"{found.places[0].folder}/{found.name}",
        tuple(place.node for place in found.places),
        tuple(problems),
        tuple(unseen),
    )


class _Hashed:
    """Sums up hashed bytes, in several threads."""

    def __init__(self, name: str, parts: Sequence[_Part], on_progress: OnProgress) -> None:
        self._name, self._on_progress = name, on_progress
        self._total = sum(entry.size for part in parts for entry in part.manifest.files_here.values())
        self._done = 0
        self._lock = threading.Lock()

    def __call__(self, count: int) -> None:
        with self._lock:
            self._done += count
            self._on_progress(self._name, self._done, self._total)


def _manifest(found: Found, place: Place) -> Manifest:
    path = f"{place.folder}/{found.name}/{MANIFEST_NAME}"
    return parse_manifest(place.files.content(path, LARGEST_DOCUMENT), Path(path))


def _of_another_save(parts: list[_Part]) -> list[str]:
    if not parts:
        return []
    first = parts[0]
    return [
        f"node {part.place.node}: it is from a different save than on {first.place.node}"
        for part in parts[1:]
        if replace(part.manifest, node=first.manifest.node) != first.manifest
    ]


def _problems(found: Found, part: _Part, hashed: _Hashed) -> list[str]:
    files = part.place.files
    folder = f"{part.place.folder}/{found.name}"
    sizes = {file.name: file.size for file in files.tree(folder)}
    problems = []
    for name, expected in part.manifest.files_here.items():
        problem = _size_problem(name, expected, sizes)
        if not problem and (actual := files.digest(f"{folder}/{name}")) != expected.sha256:
            problem = f"is damaged: SHA-256 {actual}, its manifest says {expected.sha256}"
        hashed(expected.size)
        if problem:
            problems.append(f"node {part.place.node}: {folder}/{name} {problem}")
    return problems


def _size_problem(name: str, expected: FileEntry, sizes: Mapping[str, int]) -> str:
    if name not in sizes:
        return "is missing, or is no regular file"
    if sizes[name] != expected.size:
        return f"has {sizes[name]} bytes, its manifest says {expected.size}"
    return ""
