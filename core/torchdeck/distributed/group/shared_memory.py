"""Small sums over the ranks of one machine, through shared memory.

A sum of five numbers over gloo takes a millisecond if cores are busy, as it wakes several threads in
sequence. Here each rank writes its numbers into its own slot and continues. A rank that needs the sum reads
all slots. After a reduction of gradients, which no rank finishes before all have begun it, they are already
written, and no rank waits.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import stat
import struct
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
import torch.distributed as dist

from torchdeck.distributed.group.json_collectives import broadcast

MOST = 60
"""Maximum numbers of one sum."""
_MEMORY = Path("/dev/shm")  # noqa: S108 - where Linux keeps files in memory; what it holds is no secret
_PLACE = 512
"""Bytes of one rank's slot in one sum."""
_HEAD = struct.Struct("<qI")
"""Index of the sum, and the checksum of the following data."""
_NOTE = struct.Struct("<q")
_LOOK_FOR_DEAD = 0.2
"""Seconds of waiting for a rank before the others check whether it is alive."""
_LONGEST_PAUSE = 1e-3
_NAME = re.compile(r"(torchdeck-\w{1,64})?")


class RankGridError(RuntimeError):
    """A rank did not contribute its numbers."""


class SharedMemoryReducer:
    """Slots for the numbers of every rank, for two sums: no rank can be further ahead of another.

    All ranks run the same sums in the same order, and each waits for one before it begins the next.

    Args:
        file: descriptor of the shared file, which this object closes.
        rank: this rank.
        world_size: ranks that share it.
        timeout: how long a sum may wait for a rank, seconds.
    """

    def __init__(self, file: int, *, rank: int, world_size: int, timeout: float) -> None:
        self._file = file
        self._rank = rank
        self._world_size = world_size
        self._timeout = timeout
        self._sums = 0
        self._memory = mmap.mmap(file, size_for(world_size))
        # held as long as this process lives, however it ends
        fcntl.lockf(file, fcntl.LOCK_EX, 1, rank)

    def write(self, numbers: Sequence[float]) -> None:
        """Begin a sum with this rank's numbers, at most `MOST`, the same count on every rank."""
        self._sums += 1
        content = struct.pack(f"<{len(numbers)}d", *numbers)
        record = _HEAD.pack(self._sums, _checksum(self._sums, content)) + content
        place = self._place(self._rank)
        self._memory[place : place + len(record)] = record

    def read(self, count: int) -> list[float]:
        """Return the `count` sums, once every rank has written; ranks are added in order.

        Raises:
            RankGridError: a rank has exited, or did not write in time; the message names it.
        """
        ranks = [self._numbers(rank, count) for rank in range(self._world_size)]
        return [sum(column) for column in zip(*ranks, strict=True)]

    def note(self, number: int) -> None:
        """Show a whole number to the other ranks."""
        _NOTE.pack_into(self._memory, self._note_of(self._rank), number)

    def notes(self) -> list[int]:
        """Return each rank's newest note, by rank; 0 if there is none."""
        places = map(self._note_of, range(self._world_size))
        return [_NOTE.unpack_from(self._memory, place)[0] for place in places]

    def ended(self) -> list[int]:
        """Return the ranks that have ended, or left the group."""
        return [rank for rank in range(self._world_size) if self._has_ended(rank)]

    def close(self) -> None:
        self._memory.close()
        os.close(self._file)

    def _numbers(self, rank: int, count: int) -> tuple[float, ...]:
        began, pause = 0.0, 0.0
        while (found := self._look(rank, count)) is None:
            waited = time.monotonic() - (began := began or time.monotonic())
            if waited > _LOOK_FOR_DEAD and self._has_ended(rank):
                raise RankGridError(f"rank {rank} has ended while the others wait for its loss")
            if waited > self._timeout:
                raise RankGridError(f"rank {rank} did not say its loss within {self._timeout:.0f} s")
            time.sleep(pause)
            pause = min(_LONGEST_PAUSE, 2 * pause + 1e-5)
        return found

    def _look(self, rank: int, count: int) -> tuple[float, ...] | None:
        """Return the numbers of `rank` for this sum; None if not written yet, or incomplete."""
        place = self._place(rank)
        number, checksum = _HEAD.unpack_from(self._memory, place)
        if number != self._sums:
            return None
        place += _HEAD.size
        content = self._memory[place : place + 8 * count]
        # writes may become visible in any order: an incomplete slot has another checksum
        return struct.unpack(f"<{count}d", content) if checksum == _checksum(number, content) else None

    @staticmethod
    def _note_of(rank: int) -> int:
        """Return where the note of `rank` is: behind its first slot's longest record."""
        return (2 * rank + 1) * _PLACE - _NOTE.size

    def _place(self, rank: int) -> int:
        return (2 * rank + self._sums % 2) * _PLACE

    def _has_ended(self, rank: int) -> bool:
        if rank == self._rank:
            return False
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, rank)
        except OSError:
            return False
        # so that other ranks find out, too
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, rank)
        return True


def size_for(world_size: int) -> int:
    """Return the bytes of the shared file."""
    return 2 * world_size * _PLACE


def open_board(rank: int, world_size: int, timeout: float) -> SharedMemoryReducer | None:
    """Create a reducer for all ranks of the default process group, which all call this; None without shared
    memory.
    """
    with _shared_name(rank, world_size) as name:
        file = _opened(_MEMORY / name) if name else None
        seen = torch.tensor([file is not None], dtype=torch.int64)
        dist.all_reduce(seen, op=dist.ReduceOp.MIN)
        # every rank has opened it, or never will, and its name is no longer needed
    if file is None:
        return None
    if not seen:
        os.close(file)
        return None
    board = SharedMemoryReducer(file, rank=rank, world_size=world_size, timeout=timeout)
    dist.barrier()  # no liveness check before every rank holds its lock
    return board


@contextmanager
def _shared_name(rank: int, world_size: int) -> Iterator[str]:
    """Yield the name of a file of rank 0, which is deleted afterwards; empty if there can be none."""
    path: Path | None = None
    if rank == 0:
        with suppress(OSError):
            file, made = tempfile.mkstemp(prefix="torchdeck-", dir=_MEMORY)
            path = Path(made)
            with suppress(OSError), os.fdopen(file, "wb") as empty:
                os.posix_fallocate(empty.fileno(), 0, size_for(world_size))
    try:
        yield _checked_name(broadcast(path.name if path is not None else ""))
    finally:
        if path is not None:
            path.unlink(missing_ok=True)


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RankGridError("rank 0 named no file for the sums of all ranks")
    return name


def _opened(path: Path) -> int | None:
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    status = os.fstat(file)
    # there was no space for it, or another user created it
    if not stat.S_ISREG(status.st_mode) or status.st_size == 0 or status.st_uid != os.geteuid():
        os.close(file)
        return None
    return file


def _checksum(number: int, content: bytes) -> int:
    return zlib.crc32(content, number & 0xFFFFFFFF)
