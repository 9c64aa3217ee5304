"""Ranks of every node, derived from an existing plan."""

from __future__ import annotations

from torchdeck.contract.inventory import Inventory
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.plan.placement import NodeShare


def shares_of(plan: LaunchPlan, inventory: Inventory) -> list[NodeShare]:
    """Return what `place` decided when `plan` was made for `inventory`.

    Raises:
        ValueError: the plan was made for other machines.
    """
    machines = {node.name: node for node in inventory}
    shares = []
    for node in plan.nodes:
        machine = machines.get(node.name)
        devices = {} if machine is None else {device.key: device for device in machine.devices}
        if machine is None or not set(node.devices) <= set(devices):
            raise ValueError(f"the plan was made for other machines: {node.name} is not among them as it was")
        chosen = tuple(devices[key] for key in node.devices)
        shares.append(NodeShare(machine, node.node_rank, node.nproc, chosen))
    return shares
