"""One rank's data for a save, all from the same moment of training."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate

from torchdeck.contract.checkpoints.choose import Refused
from torchdeck.distributed.checkpoints.files.rank_file import render_rank_file
from torchdeck.distributed.checkpoints.files.trainer_file import TrainerFile
from torchdeck.distributed.checkpoints.peers import Peers
from torchdeck.distributed.checkpoints.shares import deal
from torchdeck.distributed.checkpoints.tensors.model_state import model_fingerprint
from torchdeck.distributed.checkpoints.tensors.training_tensors import ModuleTensors, Staging, TrainingTensors
from torchdeck.distributed.precision import LossScaler

MODEL_PREFIX = "model."


@dataclass(frozen=True)
class Snapshot:
    """Everything of a checkpoint, ready to be written."""

    position: Mapping[str, Any]
    trainer_file: bytes
    rank_file: bytes
    tensors: dict[str, torch.Tensor]
    """This rank's share of model and optimizers; training's own memory, or a copy."""
    names: frozenset[str]
    """Names of all tensors this rank knows of: the ranks together must provide them."""
    model_fingerprint: str


def take_snapshot(state: TrainState, step: int, peers: Peers, staging: Staging | None = None) -> Snapshot:
    """Return the state after `step` steps.

    Args:
        state: state of training.
        step: optimizer steps done.
        peers: all ranks; those that hold the same tensors each provide a share of them.
        staging: copies the tensors, so that training can continue; None: they must not change until all is
            written.

    Raises:
        CheckpointError: something in the state cannot be saved; the message names it.
    """
    parts = state.parts
    listing = parts.listing()
    trainer = TrainerFile(
        step=step,
        position=state.position,
        scheduler=state.scheduler_state,
        scaler=state.scaler_state,
        extra=state.extra,
        model=listing,
        optimizers=parts.describe_optimizers(),
    )
    tensors = {MODEL_PREFIX + name: tensor for name, tensor in parts.model().items()}
    tensors |= parts.optimizer()
    of_model, of_optimizer = parts.alike()
    alike = {MODEL_PREFIX + name for name in of_model} | set(of_optimizer)
    share = own_share(tensors, alike & tensors.keys(), peers.rank, peers.world_size)
    return Snapshot(
        position=dict(state.position),
        trainer_file=trainer.render(),
        rank_file=render_rank_file(parts),
        tensors=share if staging is None else staging.copy(share),
        names=frozenset(tensors),
        model_fingerprint=model_fingerprint(listing),
    )


# Assignment of tensors that several ranks hold in common to the rank that writes them. Each rank decides it
# alone before anything is copied or written, as a function of names, sizes and the ranks' positions only.
# Replicas therefore cost no rank more than its share of memory and time, and a checkpoint of DDP is written
# by all its ranks.


def own_share(
    tensors: Mapping[str, torch.Tensor], alike: Collection[str], rank: int, world_size: int
) -> dict[str, torch.Tensor]:
    """Return the part of `tensors` that this rank must save.

    Args:
        tensors: the same names and shapes on all ranks, as far as they are in `alike`.
        alike: names of tensors that have the same values on all ranks; for a DTensor, on all ranks that hold
            the same shard of it.
        rank: this one.
        world_size: number of ranks.

    Returns:
        Everything that is not in `alike`, and this rank's share of the rest. All ranks together provide all
        of it, each part once, with about the same number of bytes each.
    """
    holders: dict[str, tuple[int, int]] = {}
    groups: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for name in alike:
        tensor = tensors[name]
        place, replicas = _replica(tensor) if isinstance(tensor, DTensor) else (rank, world_size)
        if replicas > 1:
            holders[name] = place, replicas
            groups[replicas][name] = tensor.numel() * tensor.element_size()
    writers: dict[str, int] = {}
    for replicas, sizes in groups.items():
        writers |= deal(sizes, replicas)
    return {
        name: tensor
        for name, tensor in tensors.items()
        if name not in holders or holders[name][0] == writers[name]
    }


def _replica(tensor: DTensor) -> tuple[int, int]:
    """Return this rank's index among those that hold the same shard, and their number."""
    mesh: DeviceMesh = tensor.device_mesh
    place = mesh.get_coordinate()
    if place is None:
        return 0, 1  # outside of the mesh: it has nothing to save
    dims = [dim for dim, placement in enumerate(tensor.placements) if isinstance(placement, Replicate)]
    index = 0
    for dim in dims:
        index = index * mesh.size(dim) + place[dim]
    return index, math.prod(mesh.size(dim) for dim in dims)


# Contents of a checkpoint, and the result of loading one.


class Sharing(Protocol):
    """Sharing of a training by ranks, as checkpoints see it: a `DistributedStrategy`."""

    @property
    def name(self) -> str: ...

    @property
    def rank(self) -> int: ...

    @property
    def world_size(self) -> int: ...

    @property
    def timeout(self) -> float: ...

    @property
    def scaler(self) -> LossScaler: ...

    def seen_elsewhere(self) -> Mapping[int, str]: ...

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
