"""A file's way from one rank to another, in pieces over the checkpoints' own process group.

Both ends take all the pieces whatever happens to the file at either: neither waits for one that gave up. What
arrived is for the caller to check.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import torch
import torch.distributed as dist

from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.peers import Peers, sentence

_PIECE = 16 << 20
"""Bytes of a file in memory at a time."""


def send(path: Path, size: int, receiver: int, peers: Peers) -> None:
    """Send `size` bytes of a file; zeros for what cannot be read, so that its hash is wrong there.

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
    """Write `size` bytes that another rank sends to a file; returns why that failed, empty if it did not.

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
    """The file, or why it cannot be opened."""
    try:
        file: IO[bytes] = path.open(mode)
    except OSError as error:
        yield None, sentence(error)
        return
    try:
        yield file, ""
    finally:
        with contextlib.suppress(OSError):  # of a full disk, which was reported by what wrote
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
        raise CheckpointError(f"{path.name}: another rank is gone ({sentence(error)})") from error
