"""Saves a checkpoint: every rank writes its part of a folder, hashed on the way, and syncs it; then the parts
are gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.contract.atomic import sync_file
from torchdeck.contract.checkpoints.manifest import (
    CheckpointError,
    FileEntry,
    entries_from_json,
    entries_to_json,
)
from torchdeck.contract.checkpoints.verification import hash_file
from torchdeck.distributed.checkpoints.files import dcp
from torchdeck.distributed.checkpoints.files.hashed_writer import write_hashed
from torchdeck.distributed.checkpoints.files.metadata import METADATA_NAME
from torchdeck.distributed.checkpoints.files.rank_file import rank_file_name
from torchdeck.distributed.checkpoints.files.trainer_file import TRAINER_NAME
from torchdeck.distributed.checkpoints.parts import Disks, receive, send
from torchdeck.distributed.checkpoints.peers import Peers
from torchdeck.distributed.checkpoints.snapshot import Snapshot


@dataclass(frozen=True)
class Written:
    """Contents of a save's folder."""

    files: dict[str, FileEntry]
    snapshot: Snapshot


def write_all(
    folder: Path, take: Callable[[], Snapshot], peers: Peers, disks: Disks, replicas: int = 0
) -> Written:
    """Write every rank's part of a checkpoint into `folder`; all of it is on disk when this returns.

    Args:
        folder: exists, empty.
        take: returns this rank's data, or raises the error that occurred with it.
        peers: all ranks.
        disks: which of them share the folder.
        replicas: number of other nodes that get a copy of a node's files, if each has its own disk.

    Raises:
        CheckpointError: on every rank.
    """
    snapshot = peers.step("collecting the state", take)
    given, hashed = dcp.write(folder, snapshot.tensors, peers)

    def finish() -> dict[str, Any]:
        lost = sorted(snapshot.names - given)
        if lost:
            raise CheckpointError(f"no rank gave {', '.join(lost[:3])}: the ranks hold different tensors")
        own = hashed | _write_small_files(folder, snapshot, peers.rank)
        return entries_to_json(
            {name: replace(entry, node=disks.node(peers.rank)) for name, entry in own.items()}
        )

    parts = peers.together("writing the files", finish, entries_from_json)
    files = {name: entry for part in parts for name, entry in part.items()}
    beside = {name: entry for name, entry in files.items() if entry.node == disks.node(peers.rank)}
    peers.step(
        "gathering the files",
        lambda: _check_visible(folder, beside) if disks.leads(peers.rank) else None,
    )
    if replicas and not disks.shared:
        files = copied(folder, files, peers, disks, replicas)
    return Written(files, snapshot)


def _write_small_files(folder: Path, snapshot: Snapshot, rank: int) -> dict[str, FileEntry]:
    """Return this rank's files without tensors; all are on disk."""
    name = rank_file_name(rank)
    own = {name: write_hashed(folder / name, snapshot.rank_file)}
    if rank == 0:
        own[TRAINER_NAME] = write_hashed(folder / TRAINER_NAME, snapshot.trainer_file)
        sync_file(folder / METADATA_NAME)
        own[METADATA_NAME] = hash_file(folder / METADATA_NAME)
    return own


def _check_visible(folder: Path, files: dict[str, FileEntry]) -> None:
    for name, entry in files.items():
        path = folder / name
        if not path.exists() or path.stat().st_size != entry.size:
            raise CheckpointError(
                f"{name} was written by its rank but is not in {folder} for another one: "
                "the directory of checkpoints must be one folder for all ranks of a node"
            )


# Copies of each node's part of a checkpoint on other nodes, so that it survives the loss of a node.


class Copying(NamedTuple):
    """Transfer from one disk to another."""

    sender: int
    """The leading rank on the disk with the files."""
    receiver: int
    """The leading rank on the disk with the copies."""


def copyings(disks: Disks, replicas: int) -> list[Copying]:
    """Return the transfers from each disk to the `replicas` next ones, cyclically.

    The order is the same on every rank, so that no two wait for each other. Most consecutive pairs of disks
    are disjoint, and so copy at the same time.
    """
    order = sorted(set(disks.leaders))
    count = len(order)
    found: list[Copying] = []
    for distance in range(1, min(replicas, count - 1) + 1):
        starts = sorted(range(count), key=lambda at: (at // distance % 2, at))
        found += [Copying(order[at], order[(at + distance) % count]) for at in starts]
    return found


def copied(
    folder: Path, files: Mapping[str, FileEntry], peers: Peers, disks: Disks, replicas: int
) -> dict[str, FileEntry]:
    """Copy the files of each disk in `folder` to others; return the files with the locations of their copies.

    Args:
        folder: folder of the checkpoint being created, on every disk.
        files: all files, of which each disk has those that its ranks wrote.
        peers: all ranks; they call it together.
        disks: which ranks share a disk.
        replicas: number of other disks that get a copy.

    Raises:
        CheckpointError: on every rank: a copy could not be written, or differs from the original.
    """
    what = "copying the files to other nodes"
    arrived: dict[str, str] = {}
    keepers: dict[str | None, tuple[str, ...]] = {}
    for pair in copyings(disks, replicas):
        part, keeper = disks.node(pair.sender), disks.node(pair.receiver)
        keepers[part] = (*keepers.get(part, ()), str(keeper))
        for name in sorted(name for name, entry in files.items() if entry.node == part):
            if peers.rank == pair.sender:
                send(folder / name, files[name].size, pair.receiver, peers)
            elif peers.rank == pair.receiver:
                arrived[name] = receive(folder / name, files[name].size, pair.sender, peers)

    def check() -> None:
        for name, why in arrived.items():
            if why:
                raise CheckpointError(f"{name}: {why}")
            sync_file(folder / name)
            found, entry = hash_file(folder / name), files[name]
            if (found.size, found.sha256) != (entry.size, entry.sha256):
                raise CheckpointError(f"{name} did not arrive as {entry.node} wrote it")

    peers.step(what, check)
    return {name: replace(entry, copies=keepers.get(entry.node, ())) for name, entry in files.items()}
