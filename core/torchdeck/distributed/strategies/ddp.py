"""A replica of the model on every rank, gradients averaged: torch's DistributedDataParallel."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from torchdeck.distributed.checkpoints.tensors.training_tensors import ModuleTensors, TrainingTensors
from torchdeck.distributed.precision import Precision
from torchdeck.distributed.recipe import RecipeError
from torchdeck.distributed.settings import DistributedSettings
from torchdeck.distributed.strategies.base import DistributedStrategy, register_strategy
from torchdeck.distributed.strategies.same_model import (
    check_same_shapes,
    check_same_trained,
    check_same_weights,
)
from torchdeck.distributed.units import Blocks
from torchdeck.environment import Place

_TORCHS_SIZE_MB = 25.0
"""Size of buckets that DDP chooses by itself. Where it is left to, the first one is smaller, so that ranks
begin to send early in the backward."""


@register_strategy
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


# Gradients that DDP sends cut to bf16: half the bytes.
#
# torch has such a hook (`bf16_compress_hook`) and refuses it where there is no NCCL; gloo can do the same.

# no `from __future__ import annotations`: DDP looks at the annotations of a hook themselves


def reduce_in_bf16(
    group: dist.ProcessGroup | None,
    bucket: dist.GradBucket,  # type: ignore[name-defined]  # torch's stubs lack it
) -> torch.futures.Future[torch.Tensor]:
    """A communication hook of DDP: the mean over the ranks, added up in bf16.

    Divided before it is added up, as torch's hook does, so that no sum is larger than its parts.
    """
    gradients: torch.Tensor = bucket.buffer()
    sent = gradients.to(torch.bfloat16).div_(dist.get_world_size(group))
    future = dist.all_reduce(sent, group=group, async_op=True).get_future()

    def back(done: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
        gradients.copy_(done.value()[0])
        return gradients

    return future.then(back)  # type: ignore[no-any-return]  # torch's futures are loosely typed


# DDP whose buckets of gradients are the same from the first step on.
#
# DDP lays its buckets out anew after its first backward, in the order in which gradients came. Three ranks
# and more add up in an order that depends on where in a bucket a number lies, so a resumed training, whose
# first step has the first layout again, was off in the last digits. Here the layout is settled when the
# model is wrapped: parameters in reverse, embeddings last, which is the order that gradients come in where
# modules are declared in the order they are used. There it is the layout that DDP would come to. Where they
# are not, a bucket waits for its last gradient, and those behind it wait with it: the numbers are the same,
# and less of their sending is hidden behind the rest of the backward.

Make = Callable[[nn.Module], DistributedDataParallel]

_LOOKUPS = (nn.Embedding, nn.EmbeddingBag)
_IGNORED = "_ddp_params_and_buffers_to_ignore"
"""Where torch keeps names of what DDP leaves alone."""


class _Reversed(nn.Module):
    """A model's parameters as their gradients come, the last one first, and its buffers."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        # nothing comes before a lookup, wherever its module is declared
        lookups = {id(module.weight) for module in model.modules() if isinstance(module, _LOOKUPS)}
        backwards = reversed(list(model.named_parameters()))
        for name, parameter in sorted(backwards, key=lambda named: id(named[1]) in lookups):
            self.register_parameter(_flat(name), parameter)
        for name, buffer in model.named_buffers():
            self.register_buffer(_flat(name), buffer)
        setattr(self, _IGNORED, {_flat(name) for name in getattr(model, _IGNORED, ())})


def with_settled_buckets(model: nn.Module, make: Make) -> DistributedDataParallel:
    """`make(model)`, whose buckets never change.

    Not for find_unused_parameters, under which DDP keeps its first layout anyway, nor for embeddings with
    sparse gradients, which DDP knows by their modules.
    """
    wrapped = make(_Reversed(model))
    wrapped.module = model
    # looked up by the model's own names from here on
    wrapped.parameters_to_ignore = set(getattr(model, _IGNORED, ()))
    # what torch itself calls on ranks that have run out of data (DDP's join hook)
    wrapped.reducer._push_all_rebuilt_params()  # noqa: SLF001 - has no public name
    wrapped.reducer._rebuild_buckets()  # noqa: SLF001 - as above
    return wrapped


def has_sparse_gradients(model: nn.Module) -> bool:
    return any(isinstance(module, _LOOKUPS) and module.sparse for module in model.modules())


def _flat(name: str) -> str:
    """`name` without dots, which a name of a module's own parameter must not have."""
    return name.replace(".", "/")


# PowerSGD (Vogels et al., 2019) on DDP's gradients, and what it remembers in a checkpoint.

# no `from __future__ import annotations`: DDP looks at the annotations of a hook themselves


WHOLE_STEPS = 10
"""Steps at the beginning whose gradients are sent whole: they change too fast to be approximated."""

_PREFIX = "powersgd."
_MEMORIES = ("error", "p", "q")
"""`error`: what earlier approximations left out of this rank's gradients; `p`, `q`: the last factors."""


def compress_by_powersgd(wrapped: DistributedDataParallel, rank: int) -> PowerSGDState:
    """Send gradients of `wrapped` as products of matrices of `rank` columns, from the first step on."""
    state = PowerSGDState(process_group=None, matrix_approximation_rank=rank, start_powerSGD_iter=WHOLE_STEPS)
    wrapped.register_comm_hook(state, _one_bucket_after_the_other)
    return state


def _one_bucket_after_the_other(
    state: PowerSGDState,
    bucket: dist.GradBucket,  # type: ignore[name-defined]  # torch's stubs lack it
) -> torch.futures.Future[torch.Tensor]:
    """torch's hook, which waits for collectives in callbacks: gloo's two threads were soon all waiting."""
    done = powerSGD_hook(state, bucket)
    if bucket.buffer().device.type == "cpu":
        done.wait()
    return done


class PowerSgdTensors(ModuleTensors):
    """With the approximation's memory among what is each rank's own.

    It is of one world size: at another the memory starts anew, with whole gradients at first.
    """

    def __init__(self, model: nn.Module, optimizers: Sequence[Optimizer], state: PowerSGDState) -> None:
        super().__init__(model, optimizers)
        self._state = state

    def buffers(self) -> dict[str, torch.Tensor]:
        found = super().buffers()
        found[_PREFIX + "steps"] = torch.tensor(self._state.iter)
        for memory in _MEMORIES:
            for bucket, value in _memory(self._state, memory).items():
                found[f"{_PREFIX}{memory}.{bucket}"] = value.detach().cpu().clone()
        return found

    def restore_buffers(self, saved: Mapping[str, torch.Tensor]) -> None:
        super().restore_buffers(saved)
        if _PREFIX + "steps" not in saved:
            return  # saved by a run that sent gradients whole
        device = next(self._model.parameters()).device
        self._state.iter = int(saved[_PREFIX + "steps"])
        for memory in _MEMORIES:
            prefix = f"{_PREFIX}{memory}."
            buckets = {
                int(name.removeprefix(prefix)): value.to(device)
                for name, value in saved.items()
                if name.startswith(prefix)
            }
            _memory(self._state, memory).clear()
            _memory(self._state, memory).update(buckets)


def _memory(state: PowerSGDState, name: str) -> dict[int, torch.Tensor]:
    """One of `_MEMORIES`, by bucket."""
    return {"error": state.error_dict, "p": state.p_memory_dict, "q": state.q_memory_dict}[name]
