"""Weights sharded inside groups of ranks, groups replicating each other: FSDP2 on a grid of ranks."""

from __future__ import annotations

from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from torchdeck.distributed.checked import SettingsError
from torchdeck.distributed.strategies.fsdp import FsdpStrategy


class HsdpStrategy(FsdpStrategy):
    """Hybrid sharding: weights are gathered inside a group, gradients summed inside it, then across groups.

    Ranks that follow each other are a group, so that it lies inside a node where the plan laid it there.
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
                f"distributed.hsdp.shard is {shard}; right is a number that divides {self.world_size} ranks"
            )
        return self.world_size // shard
