"""A replica of the model on every rank, gradients averaged: torch's DistributedDataParallel."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from torchdeck.distributed.checkpoints.tensors.training_tensors import TrainingTensors
from torchdeck.distributed.precision import Precision
from torchdeck.distributed.settings import DistributedSettings
from torchdeck.distributed.strategies.base import DistributedStrategy
from torchdeck.distributed.strategies.bf16_gradients import reduce_in_bf16
from torchdeck.distributed.strategies.ddp_buckets import has_sparse_gradients, with_settled_buckets
from torchdeck.distributed.strategies.powersgd import PowerSgdTensors, compress_by_powersgd
from torchdeck.distributed.strategies.same_model import (
    check_same_shapes,
    check_same_trained,
    check_same_weights,
)
from torchdeck.distributed.units import Blocks
from torchdeck.environment import Place
from torchdeck.recipes.errors import RecipeError

_TORCHS_SIZE_MB = 25.0
"""Size of buckets that DDP chooses by itself. Where it is left to, the first one is smaller, so that ranks
begin to send early in the backward."""


class DdpStrategy(DistributedStrategy):
    """Data parallel; every rank holds all weights."""

    name = "ddp"
    _recorded = False
    """Under static_graph: the first backward, which records the graph, is behind us."""
    _powersgd: PowerSGDState | None = None

    def __init__(self, settings: DistributedSettings, precision: Precision, place: Place) -> None:
        super().__init__(settings, precision, place)
        self._wrapped: weakref.WeakSet[nn.Module] = weakref.WeakSet()

    def wrap_model(self, model: nn.Module, blocks: Blocks | None = None) -> nn.Module:  # noqa: ARG002 - nothing to shard
        """See the base class.

        Raises:
            AgreementError: the ranks' models differ in shapes or in what is trained; or, without
                broadcast_parameters, in weights.
            RecipeError: no parameter is to be trained.
        """
        options = self.settings.ddp
        check_same_shapes(self.group, model)
        check_same_trained(self.group, model)  # else one rank alone would refuse, and the others wait for it
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise RecipeError(
                "the model has no parameters to train, so DDP has no gradients to average: right is a module "
                "with at least one parameter that requires a gradient (requires_grad)"
            )
        if not options.broadcast_parameters:
            check_same_weights(self.group, model)
        make = partial(
            DistributedDataParallel,
            device_ids=[self.device.index] if self.device.type == "cuda" else None,
            init_sync=options.broadcast_parameters,
            bucket_cap_mb=None if options.bucket_size_mb == _TORCHS_SIZE_MB else options.bucket_size_mb,
            find_unused_parameters=options.find_unused_parameters,
            static_graph=options.static_graph,
            gradient_as_bucket_view=options.gradient_as_bucket_view,
        )
        settled = not options.find_unused_parameters and not has_sparse_gradients(model)
        model = model.to(self.device)
        wrapped = with_settled_buckets(model, make) if settled else make(model)
        if options.comm_hook == "bf16":
            wrapped.register_comm_hook(None, reduce_in_bf16)
        elif options.comm_hook == "powersgd":
            self._powersgd = compress_by_powersgd(wrapped, options.powersgd_rank)
        self._wrapped.add(wrapped)
        return wrapped

    def tensors(self, model: nn.Module, optimizers: Sequence[Optimizer]) -> TrainingTensors:
        if self._powersgd is None:
            return super().tensors(model, optimizers)
        return PowerSgdTensors(model, optimizers, self._powersgd)

    def no_sync(self, wrapped: nn.Module) -> AbstractContextManager[object]:
        # a static graph is recorded in the first backward, which therefore cannot go without synchronisation;
        # the mean of what was averaged already is what it was, but for rounding
        recording = self.settings.ddp.static_graph and not self._recorded
        if recording or not isinstance(wrapped, DistributedDataParallel):
            return nullcontext()
        return wrapped.no_sync()

    def backward(self, loss: Tensor) -> None:
        super().backward(loss)
        self._recorded = True

    def sync_gradients(self, model: nn.Module) -> None:
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        # a parameter that some ranks did not use: all must bring something in, or none
        used = self.group.sum([parameter.grad is not None for parameter in trained])
        for parameter, ranks in zip(trained, used, strict=True):
            if ranks and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = self.local_gradients(model)
        for work in [dist.all_reduce(gradient, async_op=True) for gradient in gradients]:
            work.wait()
        for gradient in gradients:
            gradient.div_(self.world_size)

    def close(self) -> None:
        """See the base class; where the group is left, what `wrap_model` returned can be called no more."""
        # torch's reducer keeps the group alive. Were it the last to let go, the group would be taken down by
        # whoever drops the model, holding Python's lock, for which a thread of gloo may be waiting; let go of
        # by Python's own reference to it, it is taken down without the lock
        for wrapped in self._wrapped if self._group is not None and self._group.owned else ():
            for part in ("logger", "reducer", "process_group"):
                wrapped.__dict__[part] = None
        super().close()
