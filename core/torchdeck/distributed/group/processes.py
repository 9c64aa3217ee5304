"""This process as a rank: joining, leaving, and its number, before, during and after.

Outside of any launcher a process is rank 0 of 1, and everything here works there too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.contract.arguments.errors import ArgumentError
from torchdeck.distributed.group.exported_variables import exported_variables
from torchdeck.distributed.group.process_group import check_joined, choose_device
from torchdeck.distributed.group.rendezvous import join
from torchdeck.environment import DistributedConfig, DistributedValues

if TYPE_CHECKING:
    from typing_extensions import Unpack


@arguments()
def setup_distributed(
    config: DistributedConfig | None = None, **explicit: Unpack[DistributedValues]
) -> DistributedConfig:
    """Join the process group. Returns when all ranks are there; at once if it was joined before.

    The values of `config` or `explicit` are written to the environment variables, where torch, libraries
    and child processes find them. A process that was not launched makes a group of one, so code for many
    ranks runs in it.

    Args:
        config: this rank, and where the ranks meet. Default: from the environment.
        explicit: attributes of DistributedConfig that override the environment; not together with `config`.

    Returns:
        The config in use, with its backend decided.

    Raises:
        LauncherVariableError: a variable is missing or contradicts another.
        RendezvousError: a rank did not arrive within the timeout; the message names it.
        RecipeError: nccl, and there is no GPU for this rank; or the process has joined as another rank.
        TypeError: both `config` and `explicit` are given, or a name is unknown.
    """
    if config is not None and explicit:
        raise ArgumentError(
            "a config and single values are given", fix="give a DistributedConfig or values, not both"
        )
    if config is None:
        config = DistributedConfig.from_env(**explicit) if explicit else this_rank()
    device = choose_device(config, config.backend)
    if is_initialized():
        check_joined(config, device)
        return config.with_backend(_backend())
    if config.backend == "auto":
        config = config.with_backend("nccl" if device.type == "cuda" else "gloo")
    join(config, backend=config.backend, device=device if config.backend == "nccl" else None)
    exported_variables().write(config.variables())
    return config


def cleanup_distributed() -> None:
    """Leave the process group; does nothing if it was never joined, or was left already.

    The environment variables are again what they were before `setup_distributed`, unless other code has
    changed them since.
    """
    if is_initialized():
        dist.destroy_process_group()
    exported_variables().restore()


def is_initialized() -> bool:
    """Whether the process group was joined, and not left."""
    return dist.is_available() and dist.is_initialized()


def get_rank() -> int:
    """The rank, from 0. Outside a process group it is read from the environment; 0 in a single process."""
    return dist.get_rank() if is_initialized() else DistributedConfig.from_env().rank


def get_world_size() -> int:
    """The number of ranks. Outside a process group it is read from the environment; 1 in a single process."""
    return dist.get_world_size() if is_initialized() else DistributedConfig.from_env().world_size


def get_local_rank() -> int:
    """The rank on this node, from 0; 0 in a single process."""
    return this_rank().local_rank


def is_main_process() -> bool:
    """Whether this is rank 0."""
    return get_rank() == 0


def this_rank() -> DistributedConfig:
    """Return this process as a rank of the joined group, otherwise as in the environment.

    For a group joined without variables, nodes are assumed to have as many ranks as this one has GPUs;
    without GPUs, all ranks are assumed to be on one node.

    Raises:
        LauncherVariableError: the variables contradict each other.
    """
    said = DistributedConfig.from_env()
    if not is_initialized():
        return said
    rank, world_size, backend = dist.get_rank(), dist.get_world_size(), _backend()
    if (said.rank, said.world_size) == (rank, world_size):
        return said.with_backend(backend)
    there = min(world_size, torch.cuda.device_count() or world_size)
    local = min(there, world_size - rank // there * there)
    return DistributedConfig(rank, world_size, rank % there, local, backend=backend, timeout=said.timeout)


def _backend() -> str:
    """Return the backend of the existing group for the tensors sent: it may use both gloo and NCCL."""
    return "nccl" if torch.cuda.is_available() and "cuda:nccl" in dist.get_backend_config() else "gloo"
