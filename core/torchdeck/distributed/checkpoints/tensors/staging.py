"""Copy of tensors in CPU memory, from which a checkpoint is written while training continues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.distributed.tensor import DTensor


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
