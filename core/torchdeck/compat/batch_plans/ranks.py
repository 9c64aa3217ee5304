"""This process as a rank, from the environment. A rank without a world size is a process of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torchdeck import environment
from torchdeck.contract.arguments.checked_call import checked_class
from torchdeck.environment import LauncherVariableError

__all__ = ["DistributedConfig", "LauncherVariableError", "get_rank", "get_world_size", "is_main_process"]


@checked_class
@dataclass(frozen=True)
class DistributedConfig(environment.DistributedConfig):
    """`torchdeck.distributed.DistributedConfig`, which may have a rank at a world size of 1.

    Such a process is one of several that work on shards made in advance (`torchdeck batchplan shard`). They
    need no process group, and its world size is 1.

    Raises:
        LauncherVariableError: the numbers contradict each other.
    """

    def __post_init__(self) -> None:
        if self.world_size == 1 and self.rank > 0:
            environment.DistributedConfig(
                master_addr=self.master_addr,
                master_port=self.master_port,
                backend=self.backend,
                timeout=self.timeout,
            )
        else:
            super().__post_init__()

    @classmethod
    def from_env(
        cls, environ: Mapping[str, str] = os.environ, **explicit: Any
    ) -> environment.DistributedConfig:
        """Read the variables of `torchdeck.distributed.DistributedConfig.from_env`; WORLD_SIZE defaults to 1.

        Raises:
            LauncherVariableError: a variable is not a number, or contradicts another.
            TypeError: `explicit` has an unknown name, or a value of the wrong type.
        """
        if not environ.get("WORLD_SIZE") and any(environ.get(name) for name in ("RANK", "WORLD_RANK")):
            explicit = {"world_size": 1, "local_rank": 0, "local_world_size": 1, **explicit}
        return super().from_env(environ, **explicit)


def get_rank() -> int:
    """Return the rank in the environment; 0 in a process that was not launched."""
    return DistributedConfig.from_env().rank


def get_world_size() -> int:
    """Return the number of ranks in the environment; 1 in a process that was not launched."""
    return DistributedConfig.from_env().world_size


def is_main_process() -> bool:
    """Return whether this is rank 0."""
    return get_rank() == 0
