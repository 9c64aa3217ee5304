"""What goes into a checkpoint and what comes back."""

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
    """How ranks share a training, as far as checkpoints are concerned: a `DistributedStrategy`."""

    @property
    def name(self) -> str: ...

    @property
    def rank(self) -> int: ...

    @property
    def world_size(self) -> int: ...

    def tensors(self, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> TrainingTensors: ...


@dataclass
class TrainState:
    """What a save writes and a load fills; the dicts hold JSON values only."""

    model: nn.Module
    """Plain, or inside DDP, FSDP2 or torch.compile, in any order."""
    optimizers: Sequence[torch.optim.Optimizer]
    scheduler_state: dict[str, Any] = field(default_factory=dict)
    scaler_state: dict[str, Any] = field(default_factory=dict)
    position: dict[str, Any] = field(default_factory=dict)
    """`Position.to_json()` of the data order."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Whatever else the trainer wants back."""
    tensors: TrainingTensors | None = None
    """How the strategy keeps weights and optimizer state; None: in `model` and `optimizers` themselves."""

    @property
    def parts(self) -> TrainingTensors:
        """Weights and optimizer state."""
        return self.tensors or ModuleTensors(self.model, self.optimizers)


@dataclass(frozen=True)
class LoadedState:
    """What a load gives back; model, optimizers and random state it put in place."""

    step: int
    """Optimizer steps done."""
    position: dict[str, Any]
    scheduler_state: dict[str, Any]
    scaler_state: dict[str, Any]
    extra: dict[str, Any]
    rng_restored: bool = True
    """Every rank goes on exactly where it was; False after a change of world size."""
    notice: str = ""
    """A sentence for the user where the resume is not bit-exact; else empty."""
    folder: Path | None = None
    """The checkpoint, where the newest sound one was looked for."""
    refused: tuple[Refused, ...] = ()
    """Newer ones that were damaged then, newest first."""
