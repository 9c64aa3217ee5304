"""Block GPU use while a model is traced: it would need a GPU, or abort the process if torch has no CUDA."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class GpuNeededError(RuntimeError):
    """A recipe requested a GPU itself."""


class WithoutGpu(TorchFunctionMode):
    """Mode in which a request for a CUDA device raises GpuNeededError at its own line."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.cuda or _is_gpu(kwargs.get("device")) or any(map(_is_gpu, args)):
            raise GpuNeededError("asks for a CUDA device")
        return func(*args, **kwargs)


def _is_gpu(value: Any) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))
