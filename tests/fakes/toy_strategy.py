"""The masked recipe, in a file that brings a strategy along as another package would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch.distributed as dist
from torch import Tensor, nn

from fakes.masked_recipe import blocks, build_data, build_model, loss
from torchdeck.distributed.fsdp_units import Blocks
from torchdeck.distributed.strategies.base import DistributedStrategy, register_strategy

__all__ = ["blocks", "build_data", "build_model", "loss"]


@register_strategy
class ToyStrategy(DistributedStrategy):
    """Every rank a whole model; gradients are averaged one by one after the last backward."""

    name = "toy"
    _model: nn.Module
    _waiting = False

    def wrap_model(self, model: nn.Module, blocks: Blocks | None = None) -> nn.Module:  # noqa: ARG002 - whole
        self._model = model.to(self.device)
        return self._model

    @contextmanager
    def no_sync(self, wrapped: nn.Module) -> Iterator[None]:  # noqa: ARG002 - there is one model
        self._waiting = True
        yield
        self._waiting = False

    def backward(self, loss: Tensor) -> None:
        super().backward(loss)
        if not self._waiting:
            self.sync_gradients(self._model)

    def sync_gradients(self, model: nn.Module) -> None:
        for gradient in self.local_gradients(model):
            dist.all_reduce(gradient)
            gradient.div_(self.world_size)
