"""This machine as a node."""

import os
from pathlib import Path

import pytest

from torchdeck.nodes.inventory import Inventory
from torchdeck.nodes.local import probe_local, usable_cores


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


@pytest.mark.parametrize(
    ("quota", "expected"),
    [("max 100000", None), ("100000 100000", 1), ("50000 100000", 1), ("garbage", None), ("1 0", None)],
)
def test_a_containers_quota_counts(tmp_path: Path, quota: str, expected: int | None) -> None:
    """A container with one core's quota has one core, whatever the machine has."""
    file = tmp_path / "cpu.max"
    file.write_text(quota)
    assert usable_cores(file) == (expected or len(os.sched_getaffinity(0)))


def test_no_cgroup_is_no_quota(tmp_path: Path) -> None:
    """Older systems."""
    assert usable_cores(tmp_path / "absent") == len(os.sched_getaffinity(0))
