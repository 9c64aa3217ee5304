"""Weights in the type that FSDP gathers them in, as a forward under its mixed precision sees them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from torchdeck.distributed.precision import DTYPES
from torchdeck.distributed.settings import FsdpSettings
from torchdeck.tracing.units import UnitMap


def gathered_dtype(precision: torch.dtype, options: FsdpSettings) -> torch.dtype:
    """The type that FSDP gathers weights in."""
    return precision if options.param_dtype == "auto" else DTYPES[options.param_dtype]


@contextmanager
def gathered(model: nn.Module, units: UnitMap, dtype: torch.dtype) -> Iterator[None]:
    """`model` as it is in a forward under FSDP: floating-point weights in `dtype`, and what comes into a unit
    cast to it (MixedPrecisionPolicy's cast_forward_inputs). Undone afterwards; gradients are dropped."""

    def cast(_: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
        return tree_map_only(Tensor, _cast, args), tree_map_only(Tensor, _cast, kwargs)

    def _cast(tensor: Tensor) -> Tensor:
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    before = {parameter: parameter.data for parameter in model.parameters() if parameter.is_floating_point()}
    handles = [
        module.register_forward_pre_hook(cast, prepend=True, with_kwargs=True) for module in units.modules
    ]
    try:
        for parameter, data in before.items():
            parameter.grad = None
            parameter.data = data.to(dtype)
        yield
    finally:
        for handle in handles:
            handle.remove()
        for parameter, data in before.items():
            parameter.grad = None
            parameter.data = data
