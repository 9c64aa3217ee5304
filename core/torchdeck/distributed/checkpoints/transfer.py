"""Transfers a file from one rank to another, in chunks over the checkpoints' own process group.

Both ends process all chunks whatever happens to the file at either: neither waits for one that gave up. The
caller checks the received file.
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
        raise CheckpointError(f"{path.name}: another rank is gone ({sentence(error)})") from error
