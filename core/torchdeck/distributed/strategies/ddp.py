"""A replica of the model on every rank, gradients averaged: torch's DistributedDataParallel."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from torchdeck.distributed.strategies.base import DistributedStrategy
from torchdeck.distributed.units import Blocks


class DdpStrategy(DistributedStrategy):
    """Data parallel; every rank holds all weights."""

    name = "ddp"
    _recorded = False
    """Under static_graph: the first backward, which records the graph, is behind us."""

    def wrap_model(self, model: nn.Module, blocks: Blocks | None = None) -> nn.Module:  # noqa: ARG002 - nothing to shard
        options = self.settings.ddp
        return DistributedDataParallel(
            model.to(self.device),
            device_ids=[self.device.index] if self.device.type == "cuda" else None,
            bucket_cap_mb=options.bucket_size_mb,
            find_unused_parameters=options.find_unused_parameters,
            static_graph=options.static_graph,
            gradient_as_bucket_view=options.gradient_as_bucket_view,
        )

    def no_sync(self, wrapped: nn.Module) -> AbstractContextManager[object]:
        # a static graph is recorded in the first backward, which therefore cannot go without synchronisation;
        # the mean of what was averaged already is what it was
        recording = self.settings.ddp.static_graph and not self._recorded
        if recording or not isinstance(wrapped, DistributedDataParallel):
            return nullcontext()
        return wrapped.no_sync()

    def backward(self, loss: Tensor) -> None:
        super().backward(loss)
        self._recorded = True

    def sync_gradients(self, model: nn.Module) -> None:
        gradients = self.local_gradients(model)
        for work in [dist.all_reduce(gradient, async_op=True) for gradient in gradients]:
            work.wait()
        for gradient in gradients:
            gradient.div_(self.world_size)
