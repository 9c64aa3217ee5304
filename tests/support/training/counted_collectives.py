"""What a real rank hands to collectives in one step: bytes by kind, counted where torch dispatches them."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from support.memory.measured_models import recipe_of
from support.memory.measured_training import settings_of, strategy_of
from support.ranks.measured_ranks import Job
from torchdeck.distributed.fsdp_units import checkpoint_blocks
from torchdeck.distributed.strategies.base import DistributedStrategy

_WHOLE_TENSOR = {"_allgather_base_": 0, "_reduce_scatter_base_": 1, "allreduce_": 0}
"""Collective → which of its arguments is the whole tensor."""

_SMALL = {"broadcast_"}
"""DDP's buffers and order of buckets."""


class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the whole tensors of collectives."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sizes: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func.namespace == "c10d":
            name = func._schema.name.partition("::")[2]
            if name in _SMALL:
                return func(*args, **(kwargs or {}))
            whole = args[_WHOLE_TENSOR[name]]
            tensors = [whole] if isinstance(whole, Tensor) else whole
            self.sizes[name] += sum(tensor.nbytes for tensor in tensors)
        return func(*args, **(kwargs or {}))


def count_collectives(job: Job) -> dict[str, int]:
    """Bytes of the whole tensors of one step's collectives, by kind: the second's, DDP learns in the first.

    The job has `recipe`, `strategy`, `accumulation`, `checkpointing`, and tables as `settings_of` takes them.
    """
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_of({"training": {"steps": 1}, **job}, Path(folder))
    strategy = strategy_of(settings)
    strategy.setup()
    recipe = recipe_of(job["recipe"])
    model = recipe.build_model({})
    if job["checkpointing"]:
        checkpoint_blocks(model, recipe.blocks)
    wrapped = strategy.wrap_model(model, recipe.blocks)
    _step(strategy, wrapped, job["accumulation"])
    with Counting() as counting:
        _step(strategy, wrapped, job["accumulation"])
    return dict(counting.sizes)


def _step(strategy: DistributedStrategy, wrapped: nn.Module, accumulation: int) -> None:
    for index in range(accumulation):
        with strategy.accumulate(wrapped, last=index == accumulation - 1):
            strategy.backward(wrapped(torch.randn(2, 8, requires_grad=True)).square().mean())
    wrapped.zero_grad()
