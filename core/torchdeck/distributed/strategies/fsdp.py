"""Weights, gradients and optimizer state sharded over the ranks by torch's FSDP2 (`fully_shard`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.distributed.checked import SettingsError
from torchdeck.distributed.fsdp_units import Blocks, units_of
from torchdeck.distributed.precision import DTYPES, Precision
from torchdeck.distributed.rank_settings import DistributedSettings
from torchdeck.distributed.strategies.base import DistributedStrategy, register_strategy
from torchdeck.distributed.strategies.replaced_parameters import ReplacedParameters
from torchdeck.distributed.strategies.same_model import begin_alike
from torchdeck.environment import Place


@register_strategy
class FsdpStrategy(DistributedStrategy):
    """Fully sharded data parallel: a unit's weights are gathered while it computes."""

    name = "fsdp"

    def __init__(self, settings: DistributedSettings, precision: Precision, place: Place) -> None:
        super().__init__(settings, precision, place)
        self._replaced = ReplacedParameters()

    @arguments()
    def wrap_model(self, model: nn.Module, blocks: Blocks | None = None) -> nn.Module:
        options = self.settings.fsdp
        begin_alike(self.group, model)
        self.precision.compute(model, self.device)
        before = dict(model.named_parameters())
        shard = partial(
            fully_shard,
            mesh=self.mesh(),
            mp_policy=self._mixed_precision(),
            offload_policy=self._offload(),
            reshard_after_forward=options.reshard_after_forward,
        )
        for unit in units_of(model, blocks, options):
            shard(unit)
        shard(model)
        # weights are already in place; what fully_shard ignores is not
        for module in model.modules():
            for name, buffer in module.named_buffers(recurse=False):
                setattr(module, name, buffer.to(self.device))
        self._replaced.add(before, model)
        return model

    @arguments()
    def prepare_optimizer(self, wrapped: nn.Module, optimizer: Optimizer) -> Optimizer:
        self._replaced.retarget(optimizer)
        return super().prepare_optimizer(wrapped, optimizer)

    def close(self) -> None:
        self._replaced.close()
        super().close()

    def mesh(self) -> DeviceMesh:
        """Return the mesh of ranks that shard the weights; with replicas, these are its first axis."""
        return init_device_mesh(self.device.type, (self.world_size,))

    @arguments(own_checks=True)
    @contextmanager
    def no_sync(self, wrapped: nn.Module) -> Iterator[None]:
        if not isinstance(wrapped, FSDPModule):
            yield
            return
        _reduce_gradients(wrapped, now=False)
        try:
            yield
        finally:
            _reduce_gradients(wrapped, now=True)

    @arguments(own_checks=True)
    def sync_gradients(self, model: nn.Module) -> None:
        # whole gradients wait in the units, where no public function can access them
        groups = [
            group
            for module in model.modules()
            if isinstance(module, FSDPModule)
            for group in _parameter_groups(module)
        ]
        with torch.no_grad():
            for group in groups:
                group.post_backward()
            for group in groups:
                group.finalize_backward()

    @property
    def weight_parts(self) -> int:
        return self.world_size

    def weights_changed(self, model: nn.Module) -> None:
        # a forward without backward leaves the root's weights gathered
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.reshard()

    def local_gradients(self, model: nn.Module) -> list[Tensor]:
        return [g.to_local() if isinstance(g, DTensor) else g for g in super().local_gradients(model)]

    def total_square(self, local: float) -> float:
        # each element is on one rank: padding is not part of a local tensor
        return self.group.sum([local])[0]

    def _offload(self) -> OffloadPolicy:
        if not self.settings.fsdp.cpu_offload:
            return OffloadPolicy()
        # pinned memory, for direct copies to a GPU; impossible without one
        return CPUOffloadPolicy(pin_memory=self.device.type == "cuda")

    def _mixed_precision(self) -> MixedPrecisionPolicy:
        options, run = self.settings.fsdp, self.precision.dtype
        parameters = run if options.param_dtype == "auto" else DTYPES[options.param_dtype]
        # fp32 sums over ranks: bf16 has 8 bits of mantissa
        reduction = torch.float32 if options.reduce_dtype == "auto" else DTYPES[options.reduce_dtype]
        return MixedPrecisionPolicy(param_dtype=parameters, reduce_dtype=reduction)


def _reduce_gradients(wrapped: FSDPModule, *, now: bool) -> None:
    """Set whether the next backward passes reduce gradients, or keep them whole on each rank."""
    wrapped.set_requires_gradient_sync(now)
    wrapped.set_is_last_backward(now)


def _parameter_groups(module: FSDPModule) -> list[Any]:
    """Return FSDP2's own records of a unit's parameters (`FSDPParamGroup`), under either of their names
    across versions.
    """
    state = module._get_fsdp_state()  # noqa: SLF001 - has no public name
    groups = getattr(state, "_fsdp_param_groups", None)
    if groups is None:
        groups = [state._fsdp_param_group]  # noqa: SLF001 - as above
    return [group for group in groups if group is not None]


@register_strategy
class HsdpStrategy(FsdpStrategy):
    """Hybrid sharding: weights are gathered and gradients summed inside a group, then summed across groups.

    Consecutive ranks form a group, so that a group is inside one node if the plan places it there.
    """

    name = "hsdp"

    def mesh(self) -> DeviceMesh:
        return init_device_mesh(
            self.device.type,
            (self._replicas, self.settings.hsdp.shard),
            mesh_dim_names=("replicate", "shard"),
        )

    @property
    def weight_parts(self) -> int:
        return self.settings.hsdp.shard

    def total_square(self, local: float) -> float:
        # every group holds the whole gradient
        return super().total_square(local) / self._replicas

    @property
    def _replicas(self) -> int:
        shard = self.settings.hsdp.shard
        if shard < 1 or self.world_size % shard:
            raise SettingsError(
                f"shard of hsdp is {shard}", fix=f"expected a number that divides {self.world_size} ranks"
            )
        return self.world_size // shard
