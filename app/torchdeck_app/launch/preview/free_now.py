"""Detects whether other processes have taken or freed much memory of this machine since the probe. Without
Qt.
"""

from __future__ import annotations

from collections.abc import Callable

from torchdeck.contract.inventory import Inventory, NodeInfo
from torchdeck.nodes.local import probe_local

_MUCH = 0.02
"""Share of the memory of a device, or of the machine, below which a change does not affect a preview."""


def has_local(seen: Inventory) -> bool:
    """Return whether some machine of `seen` was probed, and not only described."""
    return any(not node.described for node in seen)


def has_moved(seen: Inventory, probe: Callable[[str], NodeInfo] = probe_local) -> bool:
    """Probe the machines of `seen` that can be probed; return whether their free memory has changed."""
    return any(_differs(node, probe(node.name)) for node in seen if not node.described)


def _differs(before: NodeInfo, now: NodeInfo) -> bool:
    pairs = [(before.free_bytes, now.free_bytes, now.memory_bytes)]
    if [device.key for device in before.devices] != [device.key for device in now.devices]:
        return True
    pairs += [
        (old.free_bytes, new.free_bytes, new.memory_bytes)
        for old, new in zip(before.devices, now.devices, strict=True)
    ]
    return any(
        old is not None and new is not None and abs(new - old) > _MUCH * whole for old, new, whole in pairs
    )
