"""Contents of a checkpoint, and the result of loading one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from torchdeck.contract.checkpoints.choose import Refused
from torchdeck.distributed.checkpoints.tensors.training_tensors import ModuleTensors, TrainingTensors


class Sharing(Protocol):
    """Sharing of a training by ranks, as checkpoints see it: a `DistributedStrategy`."""

    @property
    def name(self) -> str: ...

    @property
    def rank(self) -> int: ...

    @property
    def world_size(self) -> int: ...

    def tensors(self, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> TrainingTensors: ...


@dataclass
class TrainState:
    """State that a save writes and a load fills; the dicts hold JSON values only."""

    model: nn.Module
    """Plain, or inside DDP, FSDP2 or torch.compile, in any order."""
    optimizers: Sequence[torch.optim.Optimizer]
    scheduler_state: dict[str, Any] = field(default_factory=dict)
    scaler_state: dict[str, Any] = field(default_factory=dict)
    position: dict[str, Any] = field(default_factory=dict)
    """`Position.to_json()` of the data order."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Further values that the trainer restores."""
    tensors: TrainingTensors | None = None
    """The strategy's weights and optimizer state; None: in `model` and `optimizers` themselves."""

    @property
    def parts(self) -> TrainingTensors:
        """Return weights and optimizer state."""
        return self.tensors or ModuleTensors(self.model, self.optimizers)


@dataclass(frozen=True)
class LoadedState:
    """Values returned by a load; model, optimizers and random state are restored in place."""

    step: int
    """Optimizer steps done."""
    position: dict[str, Any]
    scheduler_state: dict[str, Any]
    scaler_state: dict[str, Any]
    extra: dict[str, Any]
    rng_restored: bool = True
    """Every rank resumes exactly its state; False after a change of world size."""
    notice: str = ""
    """A sentence for the user if the resume is not bit-exact; otherwise empty."""
    folder: Path | None = None
    """The checkpoint, if the newest valid one was searched for."""
    refused: tuple[Refused, ...] = ()
    """Newer ones that were damaged in that search, newest first."""
