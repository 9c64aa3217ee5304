"""Copies of each node's part of a checkpoint on other nodes, so that it outlives the loss of a node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.atomic import sync_file
from torchdeck.contract.checkpoints.manifest import CheckpointError, FileEntry
from torchdeck.contract.checkpoints.verification import hash_file
from torchdeck.distributed.checkpoints.disks import Disks
from torchdeck.distributed.checkpoints.peers import Peers
from torchdeck.distributed.checkpoints.transfer import receive, send


class Copying(NamedTuple):
    """What goes from one disk to another."""

    sender: int
    """The rank that leads on the disk with the files."""
    receiver: int
    """The rank that leads on the disk with the copies."""


def copyings(disks: Disks, replicas: int) -> list[Copying]:
    """From each disk to the `replicas` next ones, the last one's next being the first.

    The order is the same on every rank, so that no two wait for each other; most pairs of disks that have
    nothing in common come one after the other, and so copy at the same time.
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
    """Copy the files of each disk in `folder` to others; the files, with where their copies lie.

    Args:
        folder: of the checkpoint being made, on every disk.
        files: all of it, of which each disk has those that its ranks wrote.
        peers: all ranks; they call it together.
        disks: which ranks share a disk.
        replicas: how many other disks get a copy.

    Raises:
        CheckpointError: on every rank: a copy could not be written, or is not what was sent.
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
