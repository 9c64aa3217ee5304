"""Tensors of a training, however a strategy keeps them: collected for a save, filled by a load."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from torchdeck.distributed.checkpoints.tensors.model_state import (
    Listing,
    listing_of,
    local_buffers,
    model_tensors,
    parameter_names,
    restore_buffers,
    restore_model,
)
from torchdeck.distributed.checkpoints.tensors.optimizer_state import (
    check_same_optimizers,
    describe_optimizers,
    empty_tensors,
    optimizer_tensors,
    restore_optimizers,
)


class TrainingTensors(Protocol):
    """Weights and optimizer state of one training, on one of its ranks.

    Names and shapes are those of the whole, the same under every strategy, so that one can load what another
    saved. A rank may provide whole tensors, shards (DTensors), or only some of the names, as long as the
    ranks together provide all.
    """

    def listing(self) -> Listing:
        """Return every tensor of the model's state, of the whole model on every rank.

        Raises:
            CheckpointError: the state contains something that is not a tensor.
        """

    def model(self) -> dict[str, torch.Tensor]:
        """Return this rank's contribution to a save of the model's state."""

    def optimizer(self) -> dict[str, torch.Tensor]:
        """Return this rank's contribution to a save of the optimizers' states, by
        `optimizer.INDEX.NAME.KEY`.
        """

    def alike(self) -> tuple[Collection[str], Collection[str]]:
        """Return names in `model()` and `optimizer()` that every rank provides with the same values.

        Each is written by one rank: for a DTensor, by one of those that hold the same shard.
        """

    def describe_optimizers(self) -> list[dict[str, Any]]:
        """Return everything about the optimizers except their tensors, as JSON; the same on every rank."""

    def check_same_optimizers(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """Raise CheckpointError with the difference unless `saved` describes optimizers like these."""

    def model_places(self) -> dict[str, torch.Tensor]:
        """Return memory to read the model's state into."""

    def optimizer_places(self, saved: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Return memory to read the optimizers' states into, as `saved` describes them."""

    def restore(
        self,
        model: dict[str, torch.Tensor],
        optimizer: dict[str, torch.Tensor],
        saved: Sequence[Mapping[str, Any]],
    ) -> None:
        """Copy what was read into that memory to where training uses it."""

    def buffers(self) -> dict[str, torch.Tensor]:
        """Return this rank's own buffers, on the CPU."""

    def restore_buffers(self, saved: Mapping[str, torch.Tensor]) -> None:
        """Restore this rank's own buffers."""


class ModuleTensors:
    """Tensors of a module and torch's optimizers: a plain module, or inside DDP, FSDP2 or torch.compile."""

    def __init__(self, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self._model = model
        self._optimizers = optimizers

    def listing(self) -> Listing:
        return listing_of(self.model())

    def model(self) -> dict[str, torch.Tensor]:
        return model_tensors(self._model)

    def optimizer(self) -> dict[str, torch.Tensor]:
        return optimizer_tensors(self._model, self._optimizers)

    def alike(self) -> tuple[Collection[str], Collection[str]]:
        # all gradients are reduced; buffers, and what get_extra_state returns, are a rank's own
        return parameter_names(self._model), optimizer_tensors(self._model, self._optimizers).keys()

    def describe_optimizers(self) -> list[dict[str, Any]]:
        return describe_optimizers(self._model, self._optimizers)

    def check_same_optimizers(self, saved: Sequence[Mapping[str, Any]]) -> None:
        check_same_optimizers(self._model, self._optimizers, saved)

    def model_places(self) -> dict[str, torch.Tensor]:
        return self.model()

    def optimizer_places(self, saved: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        return empty_tensors(self._model, self._optimizers, saved)

    def restore(
        self,
        model: dict[str, torch.Tensor],
        optimizer: dict[str, torch.Tensor],
        saved: Sequence[Mapping[str, Any]],
    ) -> None:
        restore_model(self._model, model)
        restore_optimizers(self._model, self._optimizers, saved, optimizer)

    def buffers(self) -> dict[str, torch.Tensor]:
        return local_buffers(self._model)

    def restore_buffers(self, saved: Mapping[str, torch.Tensor]) -> None:
        restore_buffers(self._model, saved)


# Name of a weight's moving average in a checkpoint: this prefix, and the weight's own name.

AVERAGE_PREFIX = "ema."


# Copy of tensors in CPU memory, from which a checkpoint is written while training continues.


class Staging:
    """Copies tensors into memory that it keeps from one save to the next.

    The memory is pinned if tensors are on GPUs, so that a copy runs at the bus's speed. Touching fresh memory
    costs more than copying into it, so it is never freed between saves.
    """

    def __init__(self) -> None:
        self._places: dict[str, torch.Tensor] = {}

    def copy(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the current values of `tensors`; a DTensor gives a DTensor of the same layout.

        The previous result is overwritten if names, shapes and dtypes are the same.
        """
        self._places = {name: self._place(name, tensor) for name, tensor in tensors.items()}
        sources = [_local(tensor) for tensor in tensors.values()]
        targets = [_local(place) for place in self._places.values()]
        devices = {source.device for source in sources if source.is_cuda}
        with torch.no_grad():
            if sources:
                torch._foreach_copy_(targets, sources, non_blocking=bool(devices))
        for device in devices:
            torch.cuda.current_stream(device).synchronize()
        return dict(self._places)

    def _place(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        place = self._places.get(name)
        if place is not None and _same_layout(place, tensor):
            return place
        local = _local(tensor)
        memory = torch.empty(
            local.shape, dtype=local.dtype, device="cpu", pin_memory=local.is_cuda and local.numel() > 0
        )
        if not isinstance(tensor, DTensor):
            return memory
        # keeps the mesh, which is of GPUs; DTensor.from_local would move the memory back to one
        whole: Any = tensor.detach().to("cpu")
        whole._local_tensor = memory  # noqa: SLF001 - as torch's own staging does
        staged: torch.Tensor = whole
        return staged


def _local(tensor: torch.Tensor) -> torch.Tensor:
    """Return this rank's part."""
    local: torch.Tensor = tensor.detach()
    return local.to_local() if isinstance(local, DTensor) else local


def _same_layout(place: torch.Tensor, tensor: torch.Tensor) -> bool:
    if isinstance(place, DTensor) != isinstance(tensor, DTensor):
        return False
    if isinstance(place, DTensor) and isinstance(tensor, DTensor):
        layout = (place.device_mesh, place.placements, place.shape)
        if layout != (tensor.device_mesh, tensor.placements, tensor.shape):
            return False
    here, there = _local(place), _local(tensor)
    return here.shape == there.shape and here.dtype == there.dtype
