"""Transfer of checkpoints from the nodes of a run, which may have a share each; verified by their hashes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchdeck.contract.atomic import write_bytes
from torchdeck.contract.checkpoints.listing import inspect
from torchdeck.contract.checkpoints.manifest import (
    LARGEST_DOCUMENT,
    MANIFEST_NAME,
    USUAL_VERSION,
    CheckpointError,
    Manifest,
    read_manifest,
)
from torchdeck.contract.checkpoints.verification import verify, verify_files
from torchdeck.launching.pull.fetching import NotWholeError, OnBytes, fetch
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
            f"{min(missing)}): all nodes of the run must be reached"
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
                f"{found.name} on node {place.node} is of another save than on {found.places[0].node}"
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
