"""This machine, as a node."""

from __future__ import annotations

from torchdeck.agent.probe.system import main_memory, usable_cores
from torchdeck.contract.inventory import NodeInfo
from torchdeck.nodes.gpus import probe_gpus


def probe_local(name: str = "localhost") -> NodeInfo:
    """Return this machine's hardware, for a node called `name`; takes at most tens of milliseconds if there
    is no GPU.
    """
    memory, free = main_memory()
    return NodeInfo(
        name=name,
        address="127.0.0.1",
        devices=probe_gpus(),
        cpu_count=usable_cores(),
        memory_bytes=memory,
        free_bytes=free,
    )
