"""Strategy for a single rank."""

from __future__ import annotations

from torch import nn

from torchdeck.distributed.group.process_group import ProcessGroup
from torchdeck.distributed.recipe import RecipeError
from torchdeck.distributed.strategies.base import DistributedStrategy, register_strategy
from torchdeck.distributed.units import Blocks


@register_strategy
class SingleStrategy(DistributedStrategy):
    """Training in this process alone."""

    name = "single"

    def _join(self) -> ProcessGroup:
        if self.world_size != 1:
            raise RecipeError(
                f'distributed.strategy "single" is one rank, but there are {self.world_size}: '
                'use "ddp" or "fsdp", or start one process (distributed.nproc = 1)'
            )
        settings = self.settings
        return ProcessGroup(self.place, backend=settings.backend, timeout=settings.timeout, alone=True)

    def wrap_model(self, model: nn.Module, blocks: Blocks | None = None) -> nn.Module:  # noqa: ARG002 - nothing to shard
        return model.to(self.device)
