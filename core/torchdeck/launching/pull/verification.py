"""Verification of checkpoints on the nodes that have them: every file is hashed there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.checkpoints.manifest import (
    LARGEST_DOCUMENT,
    MANIFEST_NAME,
    CheckpointError,
    FileEntry,
    Manifest,
    parse_manifest,
)
from torchdeck.launching.pull.checkpoints import Found, Place

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
    if parts:
        with ThreadPoolExecutor(len(parts), thread_name_prefix="verify") as pool:
            for wrong in pool.map(lambda part: _problems(found, part, hashed), parts):
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
        f"node {part.place.node}: it is of another save than on {first.place.node}"
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
