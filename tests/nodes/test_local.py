"""This machine as a node."""

import os

from torchdeck.contract.inventory import Inventory
from torchdeck.nodes.this_machine import probe_local


def test_this_machine_is_a_node() -> None:
    """It has a name, cores and memory."""
    found = probe_local("here")
    assert (found.name, found.address) == ("here", "127.0.0.1")
    assert 1 <= found.cpu_count <= (os.cpu_count() or 1)
    assert found.memory_bytes > 2**20
    assert found.free_bytes is not None
    assert 0 < found.free_bytes <= found.memory_bytes
    assert not found.described
    assert Inventory((found,)).find("here") is found
    assert Inventory((found,)).find("there") is None
