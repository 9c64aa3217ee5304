"""Settings with fields that can be assigned."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from torchdeck import environment
from torchdeck.contract.arguments.checked_call import arguments, checked_class

_TIMEOUT_MS = 30_000


class BackendType(Enum):
    """Communication library; the value is that of DISTRIBUTED_BACKEND."""

    CPU = "cpu"
    """gloo, on every machine."""
    NCCL = "nccl"
    """Between NVIDIA GPUs."""


@checked_class
@dataclass
class DistributedConfig:
    """This rank, and where the ranks meet. Values are checked when they are used."""

    rank: int = 0
    world_size: int = 1
    local_rank: int | None = None
    """Index of this rank on its machine. Default: `rank`."""
    master_addr: str = "127.0.0.1"
    """Address of rank 0's machine."""
    master_port: int = 29500
    backend: BackendType = BackendType.CPU
    timeout_ms: int = _TIMEOUT_MS
    """How long a rank waits for the others, milliseconds."""

    @classmethod
    @arguments(own_checks=True)
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> DistributedConfig:
        """Read RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, DISTRIBUTED_BACKEND and
        DISTRIBUTED_TIMEOUT_MS; a process that was not launched is alone.

        Raises:
            LauncherVariableError: a variable is missing, not a number, or contradicts another.
        """
        said = environment.DistributedConfig.from_env(environ)
        return cls(
            said.rank,
            said.world_size,
            said.local_rank,
            said.master_addr,
            said.master_port,
            BackendType.NCCL if said.backend == "nccl" else BackendType.CPU,
            round(said.timeout * 1000) if environ.get("DISTRIBUTED_TIMEOUT_MS") else _TIMEOUT_MS,
        )

    def to_library(self) -> environment.DistributedConfig:
        """Return the same as a `torchdeck.distributed.DistributedConfig`.

        The number of ranks on this machine is that of LOCAL_WORLD_SIZE; without it, all are.

        Raises:
            LauncherVariableError: the numbers contradict each other.
        """
        values: dict[str, Any] = {
            "rank": self.rank,
            "world_size": self.world_size,
            "local_rank": self.rank if self.local_rank is None else self.local_rank,
            "master_addr": self.master_addr,
            "master_port": self.master_port,
            "backend": self.backend.value,
            "timeout": self.timeout_ms / 1000,
        }
        return environment.DistributedConfig.from_env(**values)


@checked_class
@dataclass
class DDPConfig:
    """Options of DistributedDataParallel."""

    broadcast_parameters: bool = True
    """Every rank begins with the weights of rank 0; without it they must be the same already."""
    bucket_size_mb: float = 25
    """Size of a bucket of gradients that is reduced at once, MiB."""
    find_unused_parameters: bool = False
    """Detect parameters that did not contribute to the output."""

    def to_library(self) -> dict[str, Any]:
        """Return the same as the table [distributed.ddp] of a run.toml."""
        return {
            "broadcast_parameters": self.broadcast_parameters,
            "bucket_size_mb": float(self.bucket_size_mb),
            "find_unused_parameters": self.find_unused_parameters,
        }
