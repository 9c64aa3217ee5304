"""The ranks together: joining, adding numbers up over all of them, leaving."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

import torch
import torch.distributed as dist

from torchdeck.distributed.group.board import MOST, Board, open_board
from torchdeck.distributed.group.rendezvous import join
from torchdeck.environment import DistributedConfig, Place
from torchdeck.recipes.errors import RecipeError


def choose_device(place: Place, backend: str) -> torch.device:
    """The device of this rank: the GPU of its local rank where the launcher made GPUs visible, else the CPU.

    Ranks that asked for gloo and are more than the GPUs of their node all compute on the CPU.

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
            f"rank {place.rank} is local rank {place.local_rank} and sees {visible} GPUs: lower "
            'distributed.nproc, name more devices, or set distributed.devices = "cpu" '
            "(DISTRIBUTED_BACKEND=cpu)"
        )
    return torch.device("cpu")


def check_joined(place: Place, device: torch.device) -> None:
    """Check that the process group that is there is the one of `place`, and takes tensors on `device`.

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
    """`place`, and where the variables say that the ranks meet if it does not say so itself."""
    if isinstance(place, DistributedConfig):
        return place
    return DistributedConfig.from_env(**dataclasses.asdict(place))


class PendingSum:
    """A sum over all ranks that is under way.

    Args:
        values: this rank's part, which becomes the sum by `work`, or by what lies on `board`.
    """

    def __init__(
        self, values: torch.Tensor | list[float], work: dist.Work | None = None, board: Board | None = None
    ) -> None:
        self._values = values
        self._work = work
        self._board = board

    def wait(self) -> list[float]:
        """The sums, once every rank has brought in its part.

        Raises:
            RuntimeError: a rank was lost.
        """
        if self._board is not None:
            return self._board.read(len(self._values))
        if self._work is not None:
            self._work.wait()
        return self._values if isinstance(self._values, list) else self._values.tolist()


class ProcessGroup:
    """The default process group, or this rank alone; joined on creation where nobody has joined it before.

    Args:
        place: this rank; a DistributedConfig also says where the ranks meet, else the variables do.
        backend: "gloo" or "nccl".
        timeout: how long a collective may wait for the other ranks, seconds.
        alone: do not join anything; sums are then the rank's own.

    Raises:
        RendezvousError: a rank did not come within `timeout`; the message names it.
        RecipeError: nccl without a GPU for this rank; or there is a process group already, of which this
            is another rank, or which cannot reach this rank's device.
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
                # where libraries and child processes look
                os.environ.update(config.variables())
        elif self._joined:
            check_joined(place, self.device)
        self._board: Board | None = None
        if self._joined and self.device.type == "cpu" and place.local_world_size == self.world_size > 1:
            self._board = open_board(self.rank, self.world_size, timeout)

    @property
    def owned(self) -> bool:
        """Whether it was joined here, and is so left by `close`."""
        return self._ours

    def sum(self, values: Sequence[float]) -> list[float]:
        """Each of `values` added up over all ranks in float64; the same on every rank."""
        return self._reduce(values, dist.ReduceOp.SUM)

    def start_sum(self, values: torch.Tensor | list[float]) -> PendingSum:
        """Begin to add up `values` over all ranks while this one goes on computing.

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
        """The least of each of `values` over all ranks."""
        return self._reduce(values, dist.ReduceOp.MIN)

    def close(self) -> None:
        """Leave the group, unless somebody else had joined it; no collective may follow."""
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
