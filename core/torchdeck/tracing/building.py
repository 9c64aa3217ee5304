"""Models without memory: what torch does not let fake tensors do while one is built, and ways around it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode


@contextmanager
def fake_building() -> Iterator[None]:
    """Let models be built of fake tensors in two more ways, as they are of tensors on the meta device.

    `model.to(…)`, `.half()` and the like would swap fake parameters for others, which torch refuses for any
    that something refers to weakly. And `trunc_normal_` draws again what lies outside of its bounds until
    nothing does (since torch 2.13), which a tensor without values cannot tell.
    """
    with ExitStack() as restored:
        for owner, name, stand_in in (
            (torch.utils, "swap_tensors", _set_data),
            (nn.init, "_no_grad_trunc_normal_", _left_as_it_is),
        ):
            if hasattr(owner, name):
                restored.callback(setattr, owner, name, getattr(owner, name))
                setattr(owner, name, stand_in)
        yield


def forget_values(model: nn.Module, fake: FakeTensorMode) -> None:
    """Put a fake tensor in the place of each parameter and buffer of `model`; a shared one stays shared."""
    made: dict[Tensor, Tensor] = {}
    for module in model.modules():
        own = (module.named_parameters(recurse=False, remove_duplicate=False),
               module.named_buffers(recurse=False, remove_duplicate=False))  # fmt: skip
        for name, tensor in [item for items in own for item in items]:
            if tensor not in made:
                made[tensor] = fake.from_tensor(tensor)
            setattr(module, name, made[tensor])  # not into its dict: an LSTM keeps a list of its own


def _set_data(parameter: Tensor, other: Tensor) -> None:
    parameter.data = other.detach()


def _left_as_it_is(tensor: Tensor, *_: Any, **__: Any) -> Tensor:
    return tensor
