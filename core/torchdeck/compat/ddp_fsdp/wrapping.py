"""Wrapping a model in DDP or FSDP2, with the arguments of torch's FSDP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast

import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecision, ShardingStrategy

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.contract.arguments.errors import ArgumentError
from torchdeck.distributed import wrapping
from torchdeck.distributed.group.processes import get_local_rank, get_world_size
from torchdeck.distributed.precision import DTYPES
from torchdeck.distributed.wrapping import Precision, Sharding

_LARGE = 100_000_000
"""Parameters of a module from which `wrap_model_fsdp` shards it as a unit of its own."""
_SHARDING: dict[ShardingStrategy, Sharding] = {
    ShardingStrategy.FULL_SHARD: "full",
    ShardingStrategy.SHARD_GRAD_OP: "grad-op",
    ShardingStrategy.HYBRID_SHARD: "hybrid",
}
_NAMES = {dtype: cast("Precision", name) for name, dtype in DTYPES.items()}


class AutoWrapPolicy(Protocol):
    """torch's wrap policy as a function, such as a partial of `size_based_auto_wrap_policy`."""

    def __call__(self, *, module: nn.Module, recurse: bool, nonwrapped_numel: int) -> bool: ...


@arguments()
def wrap_model_ddp(model: nn.Module, device: int | torch.device | None = None) -> nn.Module:
    """Wrap `model` in DistributedDataParallel; a single process gets it back unchanged.

    Args:
        model: the same on every rank; it is moved to this rank's device.
        device: this rank's device or local rank, which the library knows itself.

    Raises:
        ArgumentError: `device` is another rank's.
        AgreementError: the ranks' models differ.
    """
    _check_device(device)
    return wrapping.wrap_model_ddp(model) if get_world_size() > 1 else model


@arguments()
def wrap_model_fsdp(model: nn.Module, auto_wrap_policy: AutoWrapPolicy | None = None) -> nn.Module:
    """Shard `model` by FSDP2; a single process gets it back unchanged.

    Args:
        model: the same on every rank. Make the optimizer afterwards: parameters are replaced.
        auto_wrap_policy: selects the modules that are gathered as units. Default: those of at least
            100 million parameters.

    Raises:
        AgreementError: the ranks' models differ.
    """
    if get_world_size() == 1:
        return model
    if auto_wrap_policy is None:
        return wrapping.wrap_model_fsdp(model, min_params=_LARGE)
    return FSDP(model, auto_wrap_policy=auto_wrap_policy)


@arguments()
def FSDP(  # noqa: N802 - the name under which torch's class is imported
    model: nn.Module,
    *,
    auto_wrap_policy: AutoWrapPolicy | None = None,
    sharding_strategy: ShardingStrategy = ShardingStrategy.FULL_SHARD,
    mixed_precision: MixedPrecision | None = None,
    device_id: int | torch.device | None = None,
    limit_all_gathers: bool = True,
) -> nn.Module:
    """Shard `model` by FSDP2, with the arguments of torch's FullyShardedDataParallel.

    Args:
        model: the same on every rank. Make the optimizer afterwards: parameters are replaced.
        auto_wrap_policy: selects the modules that are gathered as units. Default: the whole model is one.
        sharding_strategy: FULL_SHARD, SHARD_GRAD_OP or HYBRID_SHARD.
        mixed_precision: dtypes of gathered weights and of the sum of gradients; buffers keep their own.
        device_id: this rank's device or local rank.
        limit_all_gathers: True, as FSDP2 always does.

    Raises:
        ArgumentError: `device_id` is another rank's, or FSDP2 lacks an option.
        AgreementError: the ranks' models differ.
    """
    _check_device(device_id)
    if sharding_strategy not in _SHARDING:
        raise ArgumentError(
            f"sharding_strategy is {sharding_strategy}",
            fix=f"give {', '.join(map(str, _SHARDING))}; wrap_model_ddp replaces NO_SHARD",
        )
    if not limit_all_gathers:
        raise ArgumentError("limit_all_gathers is False", "FSDP2 always limits them", "leave it out")
    precision = mixed_precision or MixedPrecision()
    return wrapping.wrap_model_fsdp(
        model,
        blocks=_units(auto_wrap_policy),
        sharding=_SHARDING[sharding_strategy],
        precision=_name(precision.param_dtype),
        reduce_dtype=_name(precision.reduce_dtype or precision.param_dtype),
    )


def _name(dtype: torch.dtype | None) -> Precision:
    if dtype is None:
        return "fp32"
    if dtype not in _NAMES:
        raise ArgumentError(f"mixed_precision has {dtype}", fix=f"give {', '.join(map(str, _NAMES))}")
    return _NAMES[dtype]


def _check_device(device: int | torch.device | None) -> None:
    index = device.index if isinstance(device, torch.device) else device
    if index is not None and index != get_local_rank():
        raise ArgumentError(
            f"the device of this rank is number {get_local_rank()}, its local rank, and {index} is given",
            fix="give the local rank, or nothing",
        )


def _units(policy: AutoWrapPolicy | None) -> Callable[[nn.Module], list[nn.Module]]:
    """Return a function from a model to the modules that torch's FSDP would wrap under `policy`."""

    def chosen(model: nn.Module) -> list[nn.Module]:
        found: list[nn.Module] = []
        if policy is not None:
            _select(model, policy, found)
        return found

    return chosen


def _select(module: nn.Module, policy: AutoWrapPolicy, found: list[nn.Module], *, root: bool = True) -> int:
    """Add the units inside `module`, and itself unless it is the root; return the parameters in them."""
    own = sum(parameter.numel() for parameter in module.parameters())
    if not policy(module=module, recurse=True, nonwrapped_numel=own):
        return 0
    wrapped = sum(_select(child, policy, found, root=False) for child in module.children())
    if root or not policy(module=module, recurse=False, nonwrapped_numel=own - wrapped):
        return wrapped
    found.append(module)
    return own
