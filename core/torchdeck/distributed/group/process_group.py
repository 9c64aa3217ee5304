"""Process group of the ranks: joining, summing over all of them, leaving."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
import torch.distributed as dist

from torchdeck.distributed.group.exported_variables import exported_variables
from torchdeck.distributed.group.rendezvous import join
from torchdeck.distributed.group.roll_call import roll_call
from torchdeck.distributed.group.shared_memory import MOST, SharedMemoryReducer, open_board
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
        MissingCallError: a rank of the existing group does not make a ProcessGroup.
        RecipeError: nccl without a GPU for this rank; or a process group exists in which this process has
            another rank, or which cannot use this rank's device.
    """

    def __init__(self, place: Place, *, backend: str, timeout: float, alone: bool = False) -> None:
        self.rank = place.rank
        self.world_size = place.world_size
        self.device = choose_device(place, backend)
        self.timeout = timeout
        self._steps_begun = self._steps_done = 0
        self._board: SharedMemoryReducer | None = None
        self._joined = not alone
        self._ours = self._joined and not dist.is_initialized()
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        if self._ours:
            config = dataclasses.replace(_with_meeting_point(place), timeout=timeout)
            join(config, backend=backend, device=self.device if backend == "nccl" else None)
            if config.is_distributed:
                # where libraries and child processes expect it
                exported_variables().write(config.variables())
        elif self._joined:
            check_joined(place, self.device)
            self.call("DistributedStrategy.setup")
        if self._joined and self.world_size > 1:
            # only if no rank believes to be on another node, or has a GPU
            here = self.device.type == "cpu" and place.local_world_size == self.world_size
            one_node = self.minimum([here])
            self._board = open_board(self.rank, self.world_size, timeout) if one_node == [1.0] else None

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

    def call(self, what: str, detail: str = "", *, timeout: float | None = None) -> None:
        """Return once every rank has made this call. See `roll_call`.

        Args:
            what: the call as users write it: "save".
            detail: what must be the same on every rank: "step 5".
            timeout: seconds to wait for the others. Default: that of the group.

        Raises:
            MissingCallError: on every rank that called; the message names the others.
        """
        if self._joined:
            limit = self.timeout if timeout is None else timeout
            roll_call(what, detail, timeout=limit, seen=self.seen_elsewhere)

    def step_begins(self) -> None:
        """Record that this rank computes gradients, for ranks that wait for it elsewhere."""
        if self._steps_begun == self._steps_done:
            self._steps_begun += 1
            self._note_steps()

    def step_ends(self) -> None:
        """Record that this rank has updated the weights."""
        self._steps_done = self._steps_begun = max(self._steps_begun, self._steps_done + 1)
        self._note_steps()

    def seen_elsewhere(self) -> dict[int, str]:
        """Return what other ranks on this machine do that keeps them from coming to where this rank is: they
        have ended, or train beyond it.
        """
        if self._board is None:
            return {}
        own = self._steps_begun + self._steps_done
        ahead = [rank for rank, steps in enumerate(self._board.notes()) if steps > own]
        ended = dict.fromkeys(self._board.ended(), "has ended, or left the process group")
        return dict.fromkeys(ahead, f"continues with training step {self._steps_done + 1}") | ended

    def _note_steps(self) -> None:
        if self._board is not None:
            self._board.note(self._steps_begun + self._steps_done)

    def close(self) -> None:
        """Leave the group, unless it was joined elsewhere. No collective may follow."""
        if self._board is not None:
            self._board.close()
            self._board = None
        if self._ours:
            if dist.is_initialized():  # the script may have left it itself
                dist.destroy_process_group()
            exported_variables().restore()
        self._joined = self._ours = False

    def _reduce(self, values: Sequence[float], operation: dist.ReduceOp.RedOpType) -> list[float]:
        if not self._joined:
            return [float(value) for value in values]
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor, op=operation)
        return tensor.tolist()
