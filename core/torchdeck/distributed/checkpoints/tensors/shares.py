"""Which rank writes what of the tensors that several ranks hold alike.

Decided before anything is copied or written, by each rank for itself: it is a function of names, sizes and
the ranks' places alone. So replicas cost no rank more than its share of memory and time, and a checkpoint of
DDP is written by all its ranks.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Collection, Mapping

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate


def own_share(
    tensors: Mapping[str, torch.Tensor], alike: Collection[str], rank: int, world_size: int
) -> dict[str, torch.Tensor]:
    """Of what this rank could give to a save, what it has to.

    Args:
        tensors: the same names and shapes on all ranks, as far as they are in `alike`.
        alike: names of tensors that have the same values on all ranks; of a DTensor, on all ranks that hold
            the same shard of it.
        rank: this one.
        world_size: number of ranks.

    Returns:
        Everything that is not in `alike`, and this rank's share of the rest: all ranks together give all of
        it, each part once, about as many bytes each.
    """
    holders: dict[str, tuple[int, int]] = {}
    groups: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for name in alike:
        tensor = tensors[name]
        place, replicas = _replica(tensor) if isinstance(tensor, DTensor) else (rank, world_size)
        if replicas > 1:
            holders[name] = place, replicas
            groups[replicas][name] = tensor.numel() * tensor.element_size()
    writers: dict[str, int] = {}
    for replicas, sizes in groups.items():
        writers |= deal(sizes, replicas)
    return {
        name: tensor
        for name, tensor in tensors.items()
        if name not in holders or holders[name][0] == writers[name]
    }


def deal(sizes: Mapping[str, int], hands: int) -> dict[str, int]:
    """Deal out names so that every hand gets about as many bytes: the largest first, to who has least.

    Args:
        sizes: bytes by name; their order does not matter.
        hands: number of those who get them, at least 1.

    Returns:
        By name, who gets it, from 0 on.
    """
    loads = [(0, hand) for hand in range(hands)]
    dealt = {}
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        load, hand = heapq.heappop(loads)
        dealt[name] = hand
        # a name costs something, too: what has no bytes is dealt out in turn
        heapq.heappush(loads, (load + max(1, sizes[name]), hand))
    return dealt


def _replica(tensor: DTensor) -> tuple[int, int]:
    """Which of those that hold the same shard this rank is, and how many there are."""
    mesh: DeviceMesh = tensor.device_mesh
    place = mesh.get_coordinate()
    if place is None:
        return 0, 1  # outside of the mesh: it has nothing to give
    dims = [dim for dim, placement in enumerate(tensor.placements) if isinstance(placement, Replicate)]
    index = 0
    for dim in dims:
        index = index * mesh.size(dim) + place[dim]
    return index, math.prod(mesh.size(dim) for dim in dims)
