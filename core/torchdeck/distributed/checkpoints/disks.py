"""Which ranks share the folder of the checkpoints: all of them, or those of one node each."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchdeck.distributed.checkpoints.answers import count, file_name, optional, text, truth
from torchdeck.distributed.checkpoints.directory import MARK_PREFIX
from torchdeck.distributed.checkpoints.peers import Peers


@dataclass(frozen=True)
class Disks:
    """By rank, the lowest rank that sees the same folder: the leader there."""

    leaders: tuple[int, ...]
    nodes: tuple[str, ...] = ()
    """By rank, the name of its node in manifests."""

    @property
    def shared(self) -> bool:
        """Return whether there is one folder for all."""
        return len(set(self.leaders)) == 1

    def leads(self, rank: int) -> bool:
        return self.leaders[rank] == rank

    def beside(self, rank: int) -> list[int]:
        """Return the ranks that share the folder of `rank`, including itself."""
        return [other for other, leader in enumerate(self.leaders) if leader == self.leaders[rank]]

    def node(self, rank: int) -> str | None:
        """Return the node of `rank`; None if all share one folder."""
        return None if self.shared else self.nodes[rank]


def find_disks(folder: Path, peers: Peers) -> Disks:
    """Determine with a file which ranks see the same `folder`; it is created if absent.

    Raises:
        CheckpointError: on every rank: a rank cannot write there.
    """
    if peers.world_size == 1:
        return Disks((0,))
    what = f"looking at {folder} from every rank"
    rank = peers.rank
    first = peers.first(what, lambda: _leave_mark(folder), _mark)
    sees = peers.together(what, (folder / first).exists, truth)
    marks = peers.together(what, lambda: None if sees[rank] else _leave_mark(folder), optional(_mark))

    def leader() -> int:
        # retried: a network file system may have cached that the folder did not exist yet
        if sees[rank] or (folder / first).exists():
            return 0
        return next(other for other, mark in enumerate(marks) if mark and (folder / mark).exists())

    leaders = tuple(peers.together(what, leader, lambda value: _rank(value, peers.world_size)))
    for mark in (first if rank == 0 else None, marks[rank]):
        if mark:
            (folder / mark).unlink(missing_ok=True)
    if len(set(leaders)) == 1:
        return Disks(leaders)
    hosts = peers.together(what, socket.gethostname, text)
    order = sorted(set(leaders))
    return Disks(leaders, tuple(f"node {order.index(leads)} ({hosts[leads]})" for leads in leaders))


def _mark(value: Any) -> str:
    name = file_name(value)
    if not name.startswith(MARK_PREFIX):
        raise ValueError(f"{name!r} is no mark of a rank")
    return name


def _rank(value: Any, world_size: int) -> int:
    if (rank := count(value)) >= world_size:
        raise ValueError(f"there is no rank {rank} of {world_size}")
    return rank


def _leave_mark(folder: Path) -> str:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"{MARK_PREFIX}{secrets.token_hex(8)}"
    os.close(os.open(folder / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    return name
