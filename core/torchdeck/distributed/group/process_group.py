"""Process group of the ranks: joining, summing over all of them, leaving."""

from __future__ import annotations

import dataclasses
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
from torchdeck.distributed.group.rendezvous import join
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.environment import DistributedConfig, Place


def choose_device(place: Place, backend: str) -> torch.device:
    """Return this rank's device: the GPU of its local rank if the launcher made GPUs visible, otherwise the
    CPU.

    If ranks use gloo and outnumber the GPUs of their node, all of them compute on the CPU.

    Raises:
        RecipeError: nccl without a GPU for this rank.
    """
    visible = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if backend == "gloo" and visible < place.local_world_size:
        return torch.device("cpu")
    if visible > place.local_rank:
        return torch.device("cuda", place.local_rank)
    if backend == "nccl" or visible:
        raise RecipeError(
            f"rank {place.rank} is local rank {place.local_rank} and sees {visible} GPUs: start fewer ranks "
            "on this node, make more GPUs visible, or use CPUs (DISTRIBUTED_BACKEND=cpu)"
        )
    return torch.device("cpu")


def check_joined(place: Place, device: torch.device) -> None:
    """Check that the existing process group is that of `place`, and accepts tensors on `device`.

    Raises:
        RecipeError: it is not, or does not.
    """
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if (rank, world_size) != (place.rank, place.world_size):
        raise RecipeError(
            f"this process was joined as rank {rank} of {world_size}, and is to be rank {place.rank} of "
            f"{place.world_size}: say the same in both places, or leave that group first"
        )
    backends = dist.get_backend_config()
    if f"{device.type}:" not in backends:
        raise RecipeError(
            f"this process was joined over {dist.get_backend()}, which does not take tensors on the "
            f"{device.type.upper()}: join over {'nccl' if device.type == 'cuda' else 'gloo'}, or leave that "
            "group first"
        )


def _with_meeting_point(place: Place) -> DistributedConfig:
    """Return `place` with the rendezvous, taken from the variables if it has none itself."""
    if isinstance(place, DistributedConfig):
        return place
    return DistributedConfig.from_env(**dataclasses.asdict(place))


class PendingSum:
    """A pending sum over all ranks.

    Args:
        values: this rank's part, replaced with the sum by `work`, or by the data in `board`.
    """

    def __init__(
        self,
        values: torch.Tensor | list[float],
        work: dist.Work | None = None,
        board: SharedMemoryReducer | None = None,
    ) -> None:
        self._values = values
        self._work = work
        self._board = board

    def wait(self) -> list[float]:
        """Return the sums, once every rank has contributed.

        Raises:
            RuntimeError: a rank was lost.
        """
        if self._board is not None:
            return self._board.read(len(self._values))
        if self._work is not None:
            self._work.wait()
        return self._values if isinstance(self._values, list) else self._values.tolist()


class ProcessGroup:
    """The default process group, or this rank alone. It is joined on creation unless it exists already.

    Args:
        place: this rank. A DistributedConfig also says where the ranks meet, else the variables do.
        backend: "gloo" or "nccl".
        timeout: timeout of a collective, in seconds.
        alone: do not join anything; sums are the rank's own.

    Raises:
        RendezvousError: a rank did not arrive within `timeout`; the message names it.
        RecipeError: nccl without a GPU for this rank; or a process group exists in which this process has
            another rank, or which cannot use this rank's device.
    """

    def __init__(self, place: Place, *, backend: str, timeout: float, alone: bool = False) -> None:
        self.rank = place.rank
        self.world_size = place.world_size
        self.device = choose_device(place, backend)
        self._joined = not alone
        self._ours = self._joined and not dist.is_initialized()
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        if self._ours:
            config = dataclasses.replace(_with_meeting_point(place), timeout=timeout)
            join(config, backend=backend, device=self.device if backend == "nccl" else None)
            if config.is_distributed:
                # where libraries and child processes expect it
                os.environ.update(config.variables())
        elif self._joined:
            check_joined(place, self.device)
        self._board: SharedMemoryReducer | None = None
        if self._joined and self.device.type == "cpu" and place.local_world_size == self.world_size > 1:
            self._board = open_board(self.rank, self.world_size, timeout)

    @property
    def owned(self) -> bool:
        """Whether it was joined here, so that `close` leaves it."""
        return self._ours

    def sum(self, values: Sequence[float]) -> list[float]:
        """The sum of each of `values` over all ranks in float64; the same on every rank."""
        return self._reduce(values, dist.ReduceOp.SUM)

    def start_sum(self, values: torch.Tensor | list[float]) -> PendingSum:
        """Start to sum `values` over all ranks while this one continues computing.

        Args:
            values: numbers, or a tensor of shape (n,) on this rank's device.
        """
        if not self._joined:
            return PendingSum(values)
        if isinstance(values, list) and self._board is not None and len(values) <= MOST:
            self._board.write(values)
            return PendingSum(values, board=self._board)
        if isinstance(values, list):
            values = torch.tensor(values, dtype=torch.float64, device=self.device)
        return PendingSum(values, dist.all_reduce(values, async_op=True))

    def minimum(self, values: Sequence[float]) -> list[float]:
        """The minimum of each of `values` over all ranks."""
        return self._reduce(values, dist.ReduceOp.MIN)

    def close(self) -> None:
        """Leave the group, unless it was joined elsewhere. No collective may follow."""
        if self._board is not None:
            self._board.close()
            self._board = None
        if self._ours:
            dist.destroy_process_group()
        self._joined = self._ours = False

    def _reduce(self, values: Sequence[float], operation: dist.ReduceOp.RedOpType) -> list[float]:
        if not self._joined:
            return [float(value) for value in values]
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor, op=operation)
        return tensor.tolist()


# Small sums over the ranks of one machine, through shared memory. A sum of five numbers over gloo takes a
# millisecond if cores are busy, as it wakes several threads in sequence. Here each rank writes its numbers
# into its own slot and continues. A rank that needs the sum reads all slots. After a reduction of gradients,
# which no rank finishes before all have begun it, they are already written, and no rank waits.

MOST = 60
"""Maximum numbers of one sum."""
_MEMORY = Path("/dev/shm")  # noqa: S108 - where Linux keeps files in memory; what it holds is no secret
_PLACE = 512
"""Bytes of one rank's slot in one sum."""
_HEAD = struct.Struct("<qI")
"""Index of the sum, and the checksum of the following data."""
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
