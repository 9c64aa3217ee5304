"""Machines as described by a run file."""

from __future__ import annotations

from torchdeck.config.cluster import Cluster, ClusterNodes
from torchdeck.config.values.gpu_models import gpu_model
from torchdeck.config.values.node_names import expand
from torchdeck.contract.inventory import Device, Inventory, NodeInfo


def inventory_from(cluster: Cluster) -> Inventory:
    """Return every machine that [cluster] describes, in its order; free resources are unknown."""
    return Inventory(tuple(node for machines in cluster.nodes for node in _nodes(machines)))


def _nodes(machines: ClusterNodes) -> list[NodeInfo]:
    """Return the nodes; identical machines share one tuple of devices."""
    names = expand(machines.name)
    addresses = names if machines.address is None else expand(machines.address)
    devices = _devices(machines)
    return [
        NodeInfo(
            name=name,
            address=address,
            devices=devices,
            cpu_count=machines.cores or max(1, machines.gpus),
            memory_bytes=machines.host_memory or 0,
            described=True,
        )
        for name, address in zip(names, addresses, strict=True)
    ]


def _devices(machines: ClusterNodes) -> tuple[Device, ...]:
    model = None if machines.gpu is None else gpu_model(machines.gpu)
    memory = machines.memory or (0 if model is None else model.memory_bytes)
    indices = range(machines.gpus) if machines.devices is None else machines.devices
    return tuple(Device(index, "", machines.gpu or "GPU", memory) for index in indices)
