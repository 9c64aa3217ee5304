"""A checkpoint from any source: its metadata, and its tensors one at a time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from torchdeck.contract.checkpoints.manifest import CheckpointError, Manifest
from torchdeck.distributed.checkpoints.files.trainer_file import TrainerFile
from torchdeck.distributed.checkpoints.tensors.model_state import Listing, dtype_name
from torchdeck.distributed.checkpoints.tensors.training_tensors import AVERAGE_PREFIX

Progress = Callable[[str, int, int], None]
"""Called with the activity, the bytes done, and the total bytes."""


@dataclass(frozen=True)
class TensorSpec:
    """Description of a tensor, without its data."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def size(self) -> int:
        """Bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def to_json(self) -> list[Any]:
        return [list(self.shape), dtype_name(self.dtype)]


class Tensors(Protocol):
    """Tensors by name, of which only those in use need memory."""

    @property
    def specs(self) -> Mapping[str, TensorSpec]:
        """Return the specs of all tensors."""

    def read(self, name: str) -> torch.Tensor:
        """Return one tensor, on the CPU.

        Raises:
            CheckpointError: the stored data is not that tensor.
        """


@dataclass(frozen=True)
class WholeCheckpoint:
    """Everything of a checkpoint.

    Tensors of the model are named `model.NAME`; all others belong to the optimizers' states.
    """

    manifest: Manifest
    """Gives the run, step, position and metrics; its files are those it was read from."""
    trainer: TrainerFile
    tensors: Tensors
    ranks: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    """Each rank's own state (see `rank_file`): of all ranks or, in an export, of none."""
    notice: str = ""
    """A sentence about missing parts; otherwise empty."""

    @property
    def resumable(self) -> bool:
        """Return whether training can resume from it."""
        return bool(self.ranks)


class InMemory:
    """Tensors already in memory, or memory-mapped from a file."""

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self._tensors = tensors
        self.specs = {name: TensorSpec(tuple(value.shape), value.dtype) for name, value in tensors.items()}

    def read(self, name: str) -> torch.Tensor:
        return self._tensors[name]


class Renamed:
    """Tensors under other names.

    Args:
        tensors: to read from.
        names: new name → the name there.
    """

    def __init__(self, tensors: Tensors, names: Mapping[str, str]) -> None:
        self._tensors, self._names = tensors, names
        self.specs = {name: tensors.specs[inner] for name, inner in names.items()}

    def read(self, name: str) -> torch.Tensor:
        return self._tensors.read(self._names[name])


def with_averages(source: Path, whole: WholeCheckpoint) -> WholeCheckpoint:
    """Return `whole` with each weight replaced by its moving average, if it has one.

    Raises:
        CheckpointError: there is no moving average in it.
    """
    names = {
        name: average
        if (average := AVERAGE_PREFIX + name.removeprefix("model.")) in whole.tensors.specs
        else name
        for name in whole.tensors.specs
        if not name.startswith(AVERAGE_PREFIX)
    }
    if len(names) == len(whole.tensors.specs):
        raise CheckpointError(f"{source} has no moving average of the weights: it was trained without ema")
    return dataclasses.replace(whole, tensors=Renamed(whole.tensors, names))


def listing_of_specs(specs: Mapping[str, TensorSpec]) -> Listing:
    return {name: (spec.shape, dtype_name(spec.dtype)) for name, spec in specs.items()}
