"""Refuses a GPU while a model is traced: it would need one, or abort the process where torch has none."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class GpuNeededError(RuntimeError):
    """A recipe asked for a GPU itself."""


class WithoutGpu(TorchFunctionMode):
    """While active, what asks for a CUDA device raises GpuNeededError at its own line."""

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
