"""Assembles a checkpoint whose files are on several nodes, where they are needed.

Files are sent from a rank that has them to the ranks that need them, over the checkpoints' own process group.
They are checked against the manifest on arrival. A file that is damaged on one node is taken from another
node with a copy.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import torch
import torch.distributed as dist

from torchdeck.contract.checkpoints.manifest import CheckpointError, Manifest, read_manifest
from torchdeck.contract.checkpoints.verification import verify_files
from torchdeck.distributed.checkpoints.checkpoint_directory import MARK_PREFIX
from torchdeck.distributed.checkpoints.peers import (
    Peers,
    count,
    file_name,
    listed,
    lost,
    optional,
    sentence,
    text,
    truth,
)

CHECKPOINTS = "checkpoints"
"""The folder's name in a run's directory."""


class Parts:
    """One checkpoint, as far as this rank's node has it.

    Attributes:
        folder: folder with all files fetched so far, including this node's own.
        manifest: manifest of the whole.
    """

    def __init__(
        self, source: Path | None, folder: Path, manifest: Manifest, disks: Disks, peers: Peers
    ) -> None:
        self.folder = folder
        self.manifest = manifest
        self._source = source
        self._disks = disks
        self._peers = peers
        self._what = f"bringing the parts of the checkpoint of step {manifest.step} together"

    def prepare(self) -> None:
        """Check the local files, and create the folder.

        Raises:
            CheckpointError: on every rank: a file is damaged, or on none of the participating nodes.
        """
        names = sorted(self._here())
        beside = self._disks.beside(self._peers.rank)
        share = names[beside.index(self._peers.rank) :: len(beside)]
        source, problems = self._source, dict[str, str]()

        def check() -> list[str]:
            for name in share:
                found = verify_files(source or self.folder, self.manifest, [name])
                problems.update((name, problem) for problem in found)
            return [name for name in share if name not in problems]

        sound = self._peers.together(self._what, check, self._names)
        lost = sorted(self.manifest.files.keys() - {name for part in sound for name in part})
        self._peers.step(self._what, lambda: _refuse(problems, lost))
        if lost:
            where = sorted({self.manifest.files[name].node or "?" for name in lost})
            raise CheckpointError(
                f"{self._what} failed: {', '.join(lost)} was written by {', '.join(where)} and is on "
                "no node of this run: let that node take part, or copy its checkpoint folder to one that does"
            )
        here = {name for rank in beside for name in sound[rank]}
        self._peers.step(self._what, lambda: self._link(sorted(here)) if self._leads else None)

    def bring(self, needed: Iterable[str]) -> None:
        """Fetch the files that this rank needs into `folder`; every rank calls it.

        Raises:
            CheckpointError: on every rank: a file did not arrive intact.
        """
        asked = self._peers.together(self._what, lambda: sorted(set(needed)), self._names)
        has = self._peers.together(self._what, lambda: sorted(self._in_folder()), self._names)
        arrived: dict[str, str] = {}
        for name in sorted({name for part in asked for name in part}):
            sender = next(rank for rank, names in enumerate(has) if name in names)
            wanting = {self._disks.leaders[rank] for rank, names in enumerate(asked) if name in names}
            for receiver in sorted(leader for leader in wanting if name not in has[leader]):
                if sender == self._peers.rank:
                    send(self.folder / name, self.manifest.files[name].size, receiver, self._peers)
                elif receiver == self._peers.rank:
                    size = self.manifest.files[name].size
                    arrived[name] = receive(self.folder / name, size, sender, self._peers)

        def check() -> None:
            unwritten = [f"{name}: {why}" for name, why in arrived.items() if why]
            problems = unwritten or verify_files(self.folder, self.manifest, arrived)
            if problems:
                raise CheckpointError("; ".join(problems))

        self._peers.step(self._what, check)

    def _names(self, value: Any) -> list[str]:
        """Return names of the checkpoint's files; raises ValueError if `value` has others."""
        names = listed(text)(value)
        if not self.manifest.files.keys() >= set(names):
            raise ValueError("it names a file that is not the checkpoint's")
        return names

    @property
    def _leads(self) -> bool:
        return self._disks.leads(self._peers.rank)

    def _here(self) -> list[str]:
        source = self._source
        return [] if source is None else [name for name in self.manifest.files if (source / name).exists()]

    def _in_folder(self) -> list[str]:
        return [name for name in self.manifest.files if (self.folder / name).exists()]

    def _link(self, names: Sequence[str]) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(mode=0o700)
        for name in names:
            (self.folder / name).symlink_to((Path(str(self._source)) / name).resolve())


@contextmanager
def gathered(folder: Path, manifest: Manifest, peers: Peers) -> Iterator[Parts]:
    """Yield the parts of the checkpoint that is `folder` on each node; `manifest` is that of the whole.

    Raises:
        CheckpointError: on every rank.
    """
    disks = find_disks(folder.parent, peers)
    whole = folder.parent / f".tmp-{folder.name.removeprefix('.replaced-')}-parts"
    source = _part_of(folder, manifest)
    parts = Parts(source, whole, manifest, disks, peers)
    try:
        parts.prepare()
        yield parts
    finally:
        if disks.leads(peers.rank):
            shutil.rmtree(whole, ignore_errors=True)
            if source is None:
                _remove_empty(folder.parent)


def _part_of(folder: Path, manifest: Manifest) -> Path | None:
    """Return this node's part: `folder`, or the place to which an interrupted save moved it."""
    name = folder.name.removeprefix(".replaced-")
    candidates = (folder, folder.with_name(name), folder.with_name(f".replaced-{name}"))
    return next((candidate for candidate in candidates if _is_of(candidate, manifest)), None)


def _is_of(folder: Path, manifest: Manifest) -> bool:
    try:
        found = read_manifest(folder)
    except CheckpointError:
        return False
    return replace(found, node=None) == replace(manifest, node=None)


def _refuse(problems: Mapping[str, str], lost: Sequence[str]) -> None:
    """Raise CheckpointError if files are damaged here and intact nowhere."""
    found = [problem for name, problem in problems.items() if name in lost]
    if found:
        raise CheckpointError("; ".join(found))


def _remove_empty(folder: Path) -> None:
    """Remove the folder of another run's checkpoints, and of that run, if this node has nothing of it."""
    with contextlib.suppress(OSError):  # it is not empty
        folder.rmdir()
        if folder.name == CHECKPOINTS:
            folder.parent.rmdir()


# Transfers a file from one rank to another, in chunks over the checkpoints' own process group.
#
# Both ends process all chunks whatever happens to the file at either: neither waits for one that gave up.
# The caller checks the received file.

_PIECE = 16 << 20
"""Bytes of a file in memory at a time."""


def send(path: Path, size: int, receiver: int, peers: Peers) -> None:
    """Send `size` bytes of a file; unreadable parts are sent as zeros, so that its hash is wrong there.

    Raises:
        CheckpointError: the other rank is gone.
    """
    with _opened(path, "rb") as (file, _):
        for content in _pieces(size):
            if file is not None:
                with contextlib.suppress(OSError):
                    read = file.read(len(content))
                    content[: len(read)] = read
            with _peer_there(path):
                dist.send(torch.frombuffer(content, dtype=torch.uint8), dst=receiver, group=peers.group)


def receive(path: Path, size: int, sender: int, peers: Peers) -> str:
    """Write `size` bytes received from another rank to a file; return the reason if that failed, otherwise
    empty.

    Raises:
        CheckpointError: the other rank is gone.
    """
    with _opened(path, "wb") as (file, why):
        for content in _pieces(size):
            with _peer_there(path):
                dist.recv(torch.frombuffer(content, dtype=torch.uint8), src=sender, group=peers.group)
            if file is not None and not why:
                try:
                    file.write(content)
                except OSError as error:
                    why = sentence(error)
        if file is not None and not why:
            try:
                file.flush()
            except OSError as error:
                why = sentence(error)
    return why


@contextlib.contextmanager
def _opened(path: Path, mode: str) -> Iterator[tuple[IO[bytes] | None, str]]:
    """Yield the file, or the reason why it cannot be opened."""
    try:
        file: IO[bytes] = path.open(mode)
    except OSError as error:
        yield None, sentence(error)
        return
    try:
        yield file, ""
    finally:
        with contextlib.suppress(OSError):  # full disk: already reported by the write
            file.close()


def _pieces(size: int) -> Iterator[bytearray]:
    while size:
        length = min(size, _PIECE)
        yield bytearray(length)
        size -= length


@contextlib.contextmanager
def _peer_there(path: Path) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise CheckpointError(f"{path.name}: {lost(error)}") from error


# Which ranks share the folder of the checkpoints: all of them, or those of one node each.


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
