"""Number formats of forward and backward, and the loss scaler that fp16 needs."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from torchdeck.distributed.recipe_loading import RecipeError

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

_GROWTH = 2.0
_BACKOFF = 0.5
_GROWTH_INTERVAL = 2000
_SMALLEST_SCALE = 2.0**-14


@dataclass(frozen=True)
class Precision:
    """Precision of a run: weights are fp32, forward and backward use `dtype` if that is safe."""

    name: str

    @property
    def dtype(self) -> torch.dtype:
        return DTYPES[self.name]

    def autocast(self, device: torch.device) -> AbstractContextManager[object]:
        """Return the context for a forward pass."""
        if self.name == "fp32":
            return nullcontext()
        return torch.autocast(device.type, dtype=self.dtype)

    def compute(self, model: nn.Module, device: torch.device) -> None:
        """Make `model` run its forward pass under `autocast`, wherever it is called.

        Called outside of an autocast context it returns fp32, so that a loss is not computed in 16 bit. A
        model that did so in another precision does so no longer.
        """
        own = model.__dict__.get("forward")
        if own is not None and hasattr(own, _REPLACED):
            own = getattr(own, _REPLACED)
            if own is None:
                del model.forward
            else:
                model.forward = own
        if self.name != "fp32":
            model.forward = MethodType(_forward_under(self, device, own, type(model)), model)

    def make_scaler(self) -> LossScaler:
        """Return a loss scaler; for formats with fp32's range it has no effect."""
        return LossScaler(enabled=self.name == "fp16")


_REPLACED = "torchdeck_replaced"
"""Attribute of a `forward` that was put in place: the instance's own one before, or None."""


def _forward_under(precision: Precision, device: torch.device, own: Any, kind: type[nn.Module]) -> Any:
    """Return a `forward` for a module of class `kind` that calls its class's, or `own`, under autocast."""

    @functools.wraps(own or kind.forward)  # other libraries look at its arguments
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        # its class is looked up at each call: sharding replaces it
        call = own or MethodType(type(self).forward, self)
        if torch.is_autocast_enabled(device.type):
            return call(*args, **kwargs)
        with precision.autocast(device):
            returned = call(*args, **kwargs)
        return in_fp32(returned)

    setattr(forward, _REPLACED, own)
    return forward


def in_fp32(value: Any) -> Any:
    """Return `value` with its 16-bit tensors in fp32, in mappings, tuples and lists to any depth.

    Mappings keep their type.
    """
    if isinstance(value, Tensor):
        return value.float() if value.dtype in (torch.bfloat16, torch.float16) else value
    if isinstance(value, Mapping):
        converted: Any = copy.copy(value)
        for key, item in value.items():
            converted[key] = in_fp32(item)
        return converted
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(in_fp32, value))
    if isinstance(value, (tuple, list)):
        return type(value)(map(in_fp32, value))
    return value


class LossScaler:
    """Dynamic loss scaling (Micikevicius et al., 2018), with the defaults of torch.amp.GradScaler.

    Overflow of gradients is detected from their norm over all ranks, which is the same everywhere, even if
    each rank holds only a shard. All ranks therefore skip the same steps, and unscaling is one factor in the
    clipping pass.
    """

    def __init__(self, *, enabled: bool, initial: float = 2.0**16) -> None:
        self.enabled = enabled
        self.scale = initial if enabled else 1.0
        self._good_steps = 0

    def update(self, norm: float) -> bool:
        """Record a step's gradient norm; return whether the optimizer may step.

        Raises:
            RecipeError: gradients overflow however small the scale.
        """
        if not self.enabled:
            return True
        if math.isfinite(norm):
            self._good_steps += 1
            if self._good_steps == _GROWTH_INTERVAL:
                self.scale, self._good_steps = self.scale * _GROWTH, 0
            return True
        self.scale, self._good_steps = self.scale * _BACKOFF, 0
        if self.scale < _SMALLEST_SCALE:
            raise RecipeError(
                "fp16 gradients overflow at every loss scale: the model diverged, or use precision bf16 or "
                "fp32"
            )
        return False

    def state_dict(self) -> dict[str, Any]:
        return {"scale": self.scale, "good_steps": self._good_steps} if self.enabled else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state`, also one of torch.amp.GradScaler.

        An empty one (saved in another precision) changes nothing.
        """
        if self.enabled and state:
            good = state["good_steps"] if "good_steps" in state else state.get("_growth_tracker", 0)
            self.scale, self._good_steps = float(state["scale"]), int(good)
