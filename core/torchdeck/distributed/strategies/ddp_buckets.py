"""DDP whose buckets of gradients are the same from the first step on.

DDP lays its buckets out anew after its first backward, in the order in which gradients came. Three ranks and
more add up in an order that depends on where in a bucket a number lies, so a resumed training, whose first
step has the first layout again, was off in the last digits. Here the layout is settled when the model is
wrapped: parameters in reverse, embeddings last, which is the order that gradients come in where modules are
declared in the order they are used. There it is the layout that DDP would come to. Where they are not, a
bucket waits for its last gradient, and those behind it wait with it: the numbers are the same, and less of
their sending is hidden behind the rest of the backward.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn
from torch.nn.parallel import DistributedDataParallel

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
