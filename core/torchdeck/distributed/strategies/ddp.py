"""A replica of the model on every rank with averaged gradients: torch's DistributedDataParallel."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.distributed.checkpoints.tensors.training_tensors import TrainingTensors
from torchdeck.distributed.fsdp_units import Blocks
from torchdeck.distributed.group.process_group import ProcessGroup
from torchdeck.distributed.precision import Precision
from torchdeck.distributed.rank_settings import DistributedSettings
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.distributed.strategies.base import DistributedStrategy, register_strategy
from torchdeck.distributed.strategies.comm_hooks import PowerSgdTensors, compress_by_powersgd, reduce_in_bf16
from torchdeck.distributed.strategies.same_model import (
    check_same_shapes,
    check_same_trained,
    check_same_weights,
)
from torchdeck.environment import Place

_TORCHS_SIZE_MB = 25.0
"""Bucket size that DDP chooses by default. If left to DDP, the first bucket is smaller, so that ranks begin
to send early in the backward.
"""


@register_strategy
class DdpStrategy(DistributedStrategy):
    """Data parallel: every rank holds all weights."""

    name = "ddp"
    _recorded = False
    """With static_graph: whether the first backward, which records the graph, is done."""
    _powersgd: PowerSGDState | None = None

    def __init__(self, settings: DistributedSettings, precision: Precision, place: Place) -> None:
        super().__init__(settings, precision, place)
        self._wrapped: weakref.WeakSet[nn.Module] = weakref.WeakSet()

    @arguments()
    def wrap_model(self, model: nn.Module, blocks: Blocks | None = None) -> nn.Module:  # noqa: ARG002 - nothing to shard
        """See the base class.

        Raises:
            AgreementError: the ranks' models differ in shapes or trained parameters; or, without
                broadcast_parameters, in weights.
            RecipeError: the model has no trainable parameter.
        """
        options = self.settings.ddp
        check_same_shapes(self.group, model)
        check_same_trained(self.group, model)  # otherwise one rank alone fails and the others wait
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise RecipeError(
                "the model has no parameters to train, so DDP has no gradients to average: expected a module "
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
        self.precision.compute(model, self.device)
        wrapped = with_settled_buckets(model, make) if settled else make(model)
        if options.comm_hook == "bf16":
            wrapped.register_comm_hook(None, reduce_in_bf16)
        elif options.comm_hook == "powersgd":
            self._powersgd = compress_by_powersgd(wrapped, options.powersgd_rank)
        # the model's attributes are dropped in this order: the group after the reducer (see `close`), also if
        # the caller leaves the group and drops the model later
        wrapped.__dict__["process_group"] = wrapped.__dict__.pop("process_group")
        self._wrapped.add(wrapped)
        return wrapped

    def tensors(self, model: nn.Module, optimizers: Sequence[Optimizer]) -> TrainingTensors:
        if self._powersgd is None:
            return super().tensors(model, optimizers)
        return PowerSgdTensors(model, optimizers, self._powersgd)

    @arguments(own_checks=True)
    def no_sync(self, wrapped: nn.Module) -> AbstractContextManager[object]:
        # a static graph is recorded in the first backward, which therefore must synchronise; averaging again
        # what is already averaged changes nothing but rounding
        recording = self.settings.ddp.static_graph and not self._recorded
        if recording or not isinstance(wrapped, DistributedDataParallel):
            return nullcontext()
        return wrapped.no_sync()

    @arguments(own_checks=True)
    def backward(self, loss: Tensor) -> None:
        super().backward(loss)
        self._recorded = True

    @arguments(own_checks=True)
    def sync_gradients(self, model: nn.Module) -> None:
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        # a parameter unused on some ranks: either all ranks contribute a gradient, or none
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
        """See the base class. Once the group is left, the result of `wrap_model` can no longer be called."""
        # torch's reducer keeps the group alive. If it were the last owner, dropping the model would destroy
        # the group while holding the GIL, for which a gloo thread may be waiting. Destroyed through Python's
        # own reference, the GIL is released.
        for wrapped in self._wrapped if self._group is not None and self._group.owned else ():
            for part in ("logger", "reducer", "process_group"):
                wrapped.__dict__[part] = None
        super().close()


# DDP with a fixed bucket layout from the first step on. DDP rebuilds its buckets after its first backward, in
# the order in which gradients arrived. With three or more ranks, the order of summation depends on a number's
# position in its bucket. A resumed training, whose first step uses the initial layout again, therefore
# differed in the last digits. Here the layout is fixed when the model is wrapped: parameters in reverse,
# embeddings last. If modules are declared in the order of use, gradients arrive in this order, and DDP would
# choose the same layout. Otherwise a bucket waits for its last gradient and delays those behind it: the
# numbers are the same, but less communication overlaps with the backward.

Make = Callable[[nn.Module], DistributedDataParallel]

_LOOKUPS = (nn.Embedding, nn.EmbeddingBag)
_IGNORED = "_ddp_params_and_buffers_to_ignore"
"""Attribute in which torch stores the names that DDP ignores."""


class _Reversed(nn.Module):
    """A model's parameters in gradient order, the last one first, and its buffers."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        # nothing precedes a lookup, wherever its module is declared
        lookups = {id(module.weight) for module in model.modules() if isinstance(module, _LOOKUPS)}
        backwards = reversed(list(model.named_parameters()))
        for name, parameter in sorted(backwards, key=lambda named: id(named[1]) in lookups):
            self.register_parameter(_flat(name), parameter)
        for name, buffer in model.named_buffers():
            self.register_buffer(_flat(name), buffer)
        setattr(self, _IGNORED, {_flat(name) for name in getattr(model, _IGNORED, ())})


def with_settled_buckets(model: nn.Module, make: Make) -> DistributedDataParallel:
    """Return `make(model)` with buckets that never change.

    Not for find_unused_parameters, with which DDP keeps its first layout anyway. Not for embeddings with
    sparse gradients either, which DDP identifies by their modules.
    """
    wrapped = make(_Reversed(model))
    wrapped.module = model
    # from here on looked up by the model's own names
    wrapped.parameters_to_ignore = set(getattr(model, _IGNORED, ()))
    # torch itself calls this on ranks that have run out of data (DDP's join hook)
    wrapped.reducer._push_all_rebuilt_params()  # noqa: SLF001 - has no public name
    wrapped.reducer._rebuild_buckets()  # noqa: SLF001 - as above
    return wrapped


def has_sparse_gradients(model: nn.Module) -> bool:
    return any(isinstance(module, _LOOKUPS) and module.sparse for module in model.modules())


def _flat(name: str) -> str:
    """Return `name` without dots, which the name of a module's own parameter must not contain."""
    return name.replace(".", "/")


@register_strategy
class SingleStrategy(DistributedStrategy):
    """Training in this process alone."""

    name = "single"

    def _join(self) -> ProcessGroup:
        if self.world_size != 1:
            raise RecipeError(
                f'strategy "single" is one rank, but there are {self.world_size}: use "ddp" or "fsdp", or '
                "start one process"
            )
        settings = self.settings
        return ProcessGroup(self.place, backend=settings.backend, timeout=settings.timeout, alone=True)

    @arguments()
    def wrap_model(self, model: nn.Module, blocks: Blocks | None = None) -> nn.Module:  # noqa: ARG002 - nothing to shard
        self.precision.compute(model, self.device)
        return model.to(self.device)
